"""What runs on a host: the protocol, the daemon that keeps it, and the drivers."""

"""What is merely written down: flavors, aggregates, keypairs, actions and their events."""

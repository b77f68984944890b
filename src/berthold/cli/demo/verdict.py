"""Whether a promise was broken at any instant: the judge replays the placement history."""

from __future__ import annotations

from berthold.cli.demo.cloud import Cloud
from berthold.lab.judge import Finding, judge, read_history


class Violated(Exception):
    """A promise was broken; the message names the servers and the host."""


def judge_now(cloud: Cloud) -> int:
    """Replay everything so far; how many events there were. Raises `Violated`."""
    history = read_history(cloud.home.database_url)
    findings = judge(history)
    if findings:
        raise Violated("\n".join(_in_words(cloud, finding) for finding in findings))
    if cloud.errors:
        raise Violated("\n".join(cloud.errors.values()))
    return len(history)


def _in_words(cloud: Cloud, finding: Finding) -> str:
    """The judge's sentence, with names in the place of ids."""
    hosts = cloud.host_names()
    sentence = finding.says
    for known in (cloud.names, hosts):
        for each, name in known.items():
            sentence = sentence.replace(each, name)
    servers = " and ".join(cloud.names.get(server, server) for server in finding.servers)
    host = hosts.get(finding.host or "", finding.host)
    return f"{finding.promise} was broken by {servers} on {host}: {sentence}"

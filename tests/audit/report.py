"""Tells which installed packages have known vulnerabilities: `python -m tests.audit.report PIP_AUDIT PACKAGES`.

For information. Whatever it finds, and where it finds nothing out, it ends well: advisories appear at any time, and a
change of ours must not fail for one that it has not caused.
"""

import json
import subprocess
import sys
from typing import Any

_LONGEST_S = 120
_ANSWER_S = 10  # for each package


def main() -> None:
    program, packages = sys.argv[1:]
    print("\n".join(report(*_audited(program, packages))))


def _audited(program: str, packages: str) -> tuple[str, str]:
    """What pip-audit answered, and what it said in place of an answer."""
    command = [
        program,
        "--path",
        packages,
        "--format",
        "json",
        "--progress-spinner",
        "off",
        "--timeout",
        str(_ANSWER_S),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LONGEST_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    return done.stdout, done.stderr


def report(answer: str, said: str) -> list[str]:
    """The lines to show: one a vulnerability, and how many packages were asked for."""
    try:
        packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    except (ValueError, KeyError):
        reason = said.strip().splitlines()[-1:] or ["it gave no answer"]
        return [f"Audit: not done, {reason[0][:300]}"]
    known = [package for package in packages if "vulns" in package]
    found = [_line(package, each) for package in known for each in package["vulns"]]
    summary = f"Audit: {len(known)} packages looked up, {len(found)} known vulnerabilities"
    unknown = len(packages) - len(known)
    return [*found, summary + (f"; {unknown} packages are not known to the index that was asked." if unknown else ".")]


def _line(package: dict[str, Any], vulnerability: dict[str, Any]) -> str:
    mended = ", ".join(vulnerability.get("fix_versions", ())) or "no version yet"
    return f"  {package['name']} {package['version']}: {vulnerability['id']}, mended in {mended}"


if __name__ == "__main__":
    main()

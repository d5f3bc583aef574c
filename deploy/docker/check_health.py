"""Ask the service in this container how it is; standard library only, so that it is quick."""

import os
import sys
import urllib.error
import urllib.request


def main() -> int:
    """Return 0 where /healthz answers 200 on loopback, else 1."""
    port = int(os.environ.get("WALRAS_HEALTH_PORT", "8081"))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=3) as answer:
            return 0 if answer.status == 200 else 1
    except (urllib.error.URLError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())

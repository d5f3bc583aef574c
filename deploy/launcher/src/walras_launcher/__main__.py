"""``python -m walras_launcher``: run Kafka and Redis for a developer, or prepare, or look."""

import sys

from walras_launcher.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

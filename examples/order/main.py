"""The whole example by one command: starts the payment service, runs an order, approves it, shows what happened.

    python examples/order/main.py [--seed N] [--amount N]

Exit code: the run's, as `tenuto run` gives it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

HERE = Path(__file__).resolve().parent
APPROVAL_TRIES = 200
TENUTO = (sys.executable, "-m", "tenuto")


def main() -> int:
    """Run one order; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=35, help="what goes wrong at the service")
    parser.add_argument("--amount", type=float, default=9000, help="above 5000 it needs approval")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenuto-order-") as folder:
        database = str(Path(folder) / "order.db")
        with payment_service(wanted.seed) as payments:
            print(
                f"The payment service listens at {payments}; the first try of each payment fails.\n",
                flush=True,
            )
            code = run_order(database, payments, wanted.amount)
            effects = read_journal(payments)
    print("\nWhat the payment service did, one line for each Idempotency-Key:")
    for effect in effects:
        print(f"  {effect['id']}, asked for {effect['asked']} times with the key {effect['key']}")
    return code


@contextmanager
def payment_service(seed: int) -> Iterator[str]:
    """The service in a process of its own; yields its address. It ends when we do, whatever ends us."""
    command = [sys.executable, str(HERE / "service.py"), "--port", "0", "--with-parent"]
    command += ["--seed", str(seed)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        try:
            yield service.stdout.readline().strip().removeprefix("listening on ")
        finally:
            service.stdin.close()


def read_journal(payments: str) -> list[dict[str, Any]]:
    """What the service has done so far."""
    with urlopen(f"{payments}/journal", timeout=10) as answer:
        effects: list[dict[str, Any]] = json.load(answer)
        return effects


def run_order(database: str, payments: str, amount: float) -> int:
    """`tenuto run` in the foreground, and the approval from beside it, as another program would send it."""
    order = {"order_id": "A-1001", "amount": amount}
    run = subprocess.Popen(
        [
            *TENUTO,
            *("run", str(HERE / "order.yaml"), "--app", str(HERE / "app.py")),
            *("--input", json.dumps(order), "--var", f"payments={payments}"),
            *("--database", database),
        ]
    )
    try:
        if amount > 5000:
            approve(run, database, str(order["order_id"]))
        return run.wait()
    except BaseException:
        run.terminate()
        run.wait()
        raise


def approve(run: subprocess.Popen[bytes], database: str, order_id: str) -> None:
    """Send the approval. The mailbox keeps it until the run waits for it, so nobody has to look when that is."""
    payload = json.dumps({"by": "somebody"})
    send = [*TENUTO, "event", "send", "order.approved", "--key", order_id, "--payload", payload]
    command = [*send, "--database", database]
    complaint = ""
    for _ in range(APPROVAL_TRIES):
        if run.poll() is not None:
            return
        if Path(database).exists():
            sent = subprocess.run(command, check=False, capture_output=True, text=True)
            if sent.returncode == 0:
                return
            complaint = sent.stderr.strip()
        time.sleep(0.05)  # the run is about to make its database
    raise SystemExit(f"the approval could not be sent: {complaint}")


if __name__ == "__main__":
    sys.exit(main())

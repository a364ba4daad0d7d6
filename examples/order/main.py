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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
TENUTO = (sys.executable, "-m", "tenuto")
APPROVAL_TRIES = 100


def main() -> int:
    """Run one order; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=7, help="what goes wrong at the service")
    parser.add_argument("--amount", type=float, default=9000, help="above 5000 it needs approval")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenuto-order-") as folder:
        database = str(Path(folder) / "order.db")
        journal = Path(folder) / "journal.jsonl"
        with payment_service(wanted.seed, journal) as payments:
            print(
                f"The payment service runs at {payments}; its first answer to each request fails."
            )
            code = run_order(database, payments, wanted.amount)
        effects = journal.read_text().splitlines() if journal.exists() else []
        print(f"\nThe service was charged {len(effects)} time(s), however often it was asked:")
        for line in effects:
            print("  ", line)
    return code


@contextmanager
def payment_service(seed: int, journal: Path) -> Iterator[str]:
    """The service in a process of its own; yields its address. It ends when we do, whatever ends us."""
    command = [sys.executable, str(HERE / "service.py"), "--port", "0", "--with-parent"]
    command += ["--seed", str(seed), "--journal", str(journal)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdin is not None
        assert service.stdout is not None
        try:
            yield service.stdout.readline().strip().removeprefix("listening on ")
        finally:
            service.stdin.close()


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
    for _ in range(APPROVAL_TRIES):
        sent = subprocess.run(
            [*send, "--database", database], check=False, capture_output=True, text=True
        )
        if sent.returncode == 0:
            return
        if sent.returncode == 2:  # a mistake in this command, which no waiting mends
            break
        try:  # the run may not have made its database yet
            run.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            continue
        return
    raise SystemExit(f"the approval could not be sent: {sent.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main())

"""The examples' definitions once more, built in Python as a person would write them."""

from __future__ import annotations

from datetime import timedelta

from tenuto import Workflow


def order() -> Workflow:
    """As examples/order/order.yaml."""
    with Workflow(
        "order",
        description="Charge, reserve, approve, ship.",
        vars={"payments": "http://127.0.0.1:9000"},
        input={
            "type": "object",
            "required": ["order_id", "amount"],
            "properties": {
                "order_id": {"type": "string", "minLength": 1},
                "amount": {"type": "number", "exclusiveMinimum": 0},
            },
        },
        timeout="3d",
        defaults={
            "retry": {
                "max_attempts": 3,
                "initial": "200ms",
                "factor": 2,
                "max": "1m",
                "jitter": "full",
            }
        },
    ) as wf:
        charge = wf.http(
            "charge",
            request={
                "method": "POST",
                "url": "${vars.payments + '/charges'}",
                "json": {"order": wf.input.order_id, "amount": wf.input.amount},
            },
            timeout="1s",
            retry={"max_attempts": 6},
        )
        reserve = wf.task(
            "reserve",
            "stock.reserve",
            queue="warehouse",
            params={"order": wf.input.order_id},
            needs=charge,
        )
        score = wf.code(
            "score",
            'def main(params):\n    return {"risk": min(params["amount"] / 100, 100.0)}\n',
            params={"amount": wf.input.amount},
            needs=charge,
        )
        both = wf.join("both", needs=[reserve, score])
        triage = wf.switch("triage", needs=both)
        approval = wf.wait_for_event(
            "approval", "order.approved", key=wf.input.order_id, timeout=timedelta(days=2)
        )
        cool_off = wf.wait("cool_off", for_=timedelta(seconds=2))
        ship = wf.task(
            "ship",
            "parcels.ship",
            params={"order": wf.input.order_id, "shelf": reserve.output.shelf},
        )
        refund = wf.http(
            "refund",
            request={
                "method": "POST",
                "url": "${vars.payments + '/refunds'}",
                "json": {"charge": charge.output.body.id},
            },
            timeout="1s",
            retry={"max_attempts": 6},
        )
        triage.when("nodes.score.output.risk > 50") >> approval
        triage.otherwise >> cool_off
        [approval, cool_off] >> ship
        approval.on_failure.when("error.code == 'timeout'") >> refund
        wf.output = {
            "charge": charge.output.body.id,
            "parcel": "${nodes.ship.?output.?parcel.orValue(null)}",
        }
    return wf


def pipeline() -> Workflow:
    """As examples/pipeline/pipeline.yaml."""
    with Workflow(
        "pipeline",
        description="A, then B and C side by side, then D.",
        input={
            "type": "object",
            "properties": {
                "seed": {"type": "integer", "default": 1},
                "chance": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.35},
            },
        },
        defaults={
            "retry": {
                "max_attempts": 3,
                "initial": "20ms",
                "factor": 2,
                "max": "200ms",
                "jitter": "full",
            }
        },
    ) as wf:
        seeds = {"seed": wf.input.seed, "chance": wf.input.chance}
        a = wf.task("a", "step", params={**seeds, "parts": []})
        b = wf.task("b", "step", params={**seeds, "parts": [a.output.text]}, needs=a)
        c = wf.task("c", "step", params={**seeds, "parts": [a.output.text]}, needs=a)
        d = wf.task(
            "d", "step", params={**seeds, "parts": [b.output.text, c.output.text]}, needs=[b, c]
        )
        wf.output = {"text": d.output.text}
    return wf


def etl() -> Workflow:
    """As examples/etl/etl.yaml."""
    with Workflow(
        "etl",
        description="Sales per country and per product.",
        input={
            "type": "object",
            "required": ["source", "target"],
            "properties": {
                "source": {
                    "type": "string",
                    "description": "a CSV file with date, country, product, quantity, price",
                },
                "target": {"type": "string", "description": "the directory to write to"},
            },
        },
        defaults={"retry": {"max_attempts": 3, "initial": timedelta(milliseconds=100)}},
    ) as wf:
        extract = wf.task(
            "extract", "etl.extract", params={"source": wf.input.source}, timeout="1m"
        )
        clean = wf.task("clean", "etl.clean", params={"rows": extract.output.rows}, needs=extract)
        totals = [
            wf.task(
                f"by_{column}",
                "etl.total",
                params={"rows": clean.output.rows, "by": column},
                needs=clean,
            )
            for column in ("country", "product")
        ]
        load = wf.task(
            "load",
            "etl.load",
            params={
                "target": wf.input.target,
                "tables": {
                    "country": wf["by_country"].output.rows,
                    "product": wf["by_product"].output.rows,
                },
            },
            needs=totals,
        )
        wf.output = {
            "files": load.output.files,
            "rows": "${{'read': size(nodes.extract.output.rows), 'kept': size(nodes.clean.output.rows),"
            " 'dropped': nodes.clean.output.dropped}}",
        }
    return wf


def poll() -> Workflow:
    """As examples/poll/poll.yaml."""
    with Workflow(
        "poll",
        description="Begin an export, poll until it is ready, count the looks.",
        vars={"service": "http://127.0.0.1:9000"},
        input={"type": "object", "properties": {"table": {"type": "string", "default": "sales"}}},
        timeout="1h",
        defaults={"retry": {"max_attempts": 3, "initial": "100ms"}},
    ) as wf:
        begin = wf.http(
            "begin",
            request={
                "method": "POST",
                "url": "${vars.service + '/exports'}",
                "json": {"table": wf.input.table},
            },
        )
        look = wf.http(
            "look",
            needs=begin,
            request={"url": "${vars.service + '/exports/' + nodes.begin.output.body.id}"},
        )
        counter = wf.set(
            "counter",
            {"looks": "${iteration == 1 ? 1 : nodes.counter.output.looks + 1}"},
            needs=look,
        )
        ready = wf.switch("ready", needs=counter)
        again = wf.wait("again", for_="250ms")
        fetch = wf.task(
            "fetch",
            "report",
            params={
                "export": begin.output.body.id,
                "rows": look.output.body.rows,
                "looks": counter.output.looks,
            },
        )
        ready.when("nodes.look.output.body.state == 'ready'") >> fetch
        ready.otherwise >> again
        again.loop(back_to=look, max=40)
        wf.output = {"report": fetch.output}
    return wf


TWINS = {"order": order, "pipeline": pipeline, "etl": etl, "poll": poll}

from tenuto.adapters.sql.engine import AtOnce, Steps


def test_a_job_that_hopes_is_driven_the_long_way() -> None:
    def job() -> Steps[str]:
        yield (("ONE", ()),)
        yield (("TWO", ()),)
        return "done"

    steps = AtOnce(group=(("ALL", ()),), read=lambda row: str(row[0]), job=job)()

    assert next(steps) == (("ONE", ()),)
    assert steps.send(None) == (("TWO", ()),)
    steps.close()

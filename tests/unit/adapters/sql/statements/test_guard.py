from tenuto.adapters.sql.commit import CHECKS
from tenuto.adapters.sql.dialect import POSTGRES, SQLITE
from tenuto.adapters.sql.statements import guard


def test_the_guard_is_all_checks_each_with_its_own_parameter() -> None:
    for dialect in (SQLITE, POSTGRES):
        whole = dialect.fill(guard.GUARD)
        for n, name in enumerate(CHECKS, 1):
            check = dialect.fill(getattr(guard, name)).strip()
            assert check.replace("$1", f"${n}") in whole

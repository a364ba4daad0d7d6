from pathlib import Path

import pytest

from tenuto.app import database as app
from tenuto.model.errors import InvalidInput
from tenuto.ports.news import NoNews
from tenuto.settings.database import Database


async def test_a_file_is_this_process_s_own(tmp_path: Path) -> None:
    opened = await app.open_database(Database(path=tmp_path / "tenuto.db"))
    assert opened.sole
    assert isinstance(opened.news, NoNews)
    assert opened.services == ()
    assert len(opened.held) == 1
    assert opened.place == str(tmp_path / "tenuto.db")
    assert opened.problem() is None
    await opened.engine.close()


@pytest.mark.parametrize("act", [app.upgrade_schema, app.current_schema, app.check_schema])
async def test_a_file_has_no_schema_to_look_after(act: object, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match=r"is a file.*; for a server's database set TENUTO_DATABASE"
    ):
        await act(Database(path=tmp_path / "tenuto.db"))  # type: ignore[operator]

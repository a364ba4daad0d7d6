"""The tasks of the word count. They only read, so each may be repeated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pydantic import BaseModel

from tenuto import Tenuto

app = Tenuto()


class Piece(BaseModel):
    """Bytes `start` to `end` of a file, `end` not included; it begins and ends with whole lines."""

    path: str
    start: int
    end: int


class Page(BaseModel):
    """What a source hands out. `next` comes back as the cursor of the page after; None ends the list."""

    items: list[Piece]
    next: Piece | None


@app.task(name="words.pieces")
def pieces(folder: str, piece: int, page: int, cursor: Piece | None) -> Page:
    """The pieces that follow the cursor, which is the last one handed out. It reads no more than it must."""
    items: list[Piece] = []
    for path in sorted(Path(folder).glob("*.txt")):
        if cursor is not None and str(path) < cursor.path:
            continue
        size, start = path.stat().st_size, 0
        if cursor is not None and str(path) == cursor.path:
            start = cursor.end
        with path.open("rb") as file:
            while start < size:
                if len(items) == page:
                    return Page(items=items, next=items[-1])
                file.seek(min(start + piece, size))
                file.readline()  # up to the end of the line that is cut
                items.append(Piece(path=str(path), start=start, end=file.tell()))
                start = file.tell()
    return Page(items=items, next=None)


@app.task(name="words.count")
def count(piece: Piece) -> dict[str, int]:
    """Map: word -> how often it stands in one piece."""
    with Path(piece.path).open("rb") as file:
        file.seek(piece.start)
        text = file.read(piece.end - piece.start).decode()
    return dict(Counter(text.lower().split()))


@app.task(name="words.merge")
def merge(counts: list[dict[str, int]], top: int) -> dict[str, object]:
    """Reduce: one count of all, and the words that stand there most often."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    first = sorted(total.items(), key=lambda entry: (-entry[1], entry[0]))[:top]
    return {
        "words": total.total(),
        "different": len(total),
        "top": [{"word": word, "count": number} for word, number in first],
    }

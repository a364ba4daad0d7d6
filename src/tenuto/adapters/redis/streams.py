"""Names of streams, what an entry says, and the scripts that run at the server. Nothing is sent here.

Every key begins with the prefix of the installation, so that several may share a Redis: an entry of another one would
look like a task that is gone, and be dropped. A queue has `shards` slots `{<queue>.<shard>}`, each with one stream a
priority: `tasks.{<queue>.<shard>}` of priority 0, `tasks.{<queue>.<shard>}.<p>` of the others. All streams of a slot
live on one node of a cluster. An entry is ids and the name of the task, so that nobody reads the database to route it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenuto.model.ids import Place, RunId
from tenuto.ports.dispatch import Hint

GROUP = "tenuto"
EPOCH = "tasks.epoch"
PRIORITIES = range(9, -1, -1)
"""Highest first."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One shard of a queue."""

    queue: str
    shard: int
    prefix: str = ""

    def stream(self, priority: int) -> str:
        """Where hints of this priority are."""
        name = f"{self.prefix}tasks.{{{self.queue}.{self.shard}}}"
        return f"{name}.{priority}" if priority else name

    @property
    def streams(self) -> tuple[str, ...]:
        """All of them, highest priority first."""
        return tuple(self.stream(priority) for priority in PRIORITIES)


def slot_of(hint: Hint, shards: int, prefix: str = "") -> Slot:
    """Where a hint goes: the same for every coordinator."""
    shard = zlib.crc32(hint.run_id.encode()) % shards if shards > 1 else 0
    return Slot(hint.queue, shard, prefix)


def stream_of(hint: Hint, shards: int, prefix: str = "") -> str:
    """The same, as a stream. A priority beyond 0 to 9 counts as the nearest."""
    return slot_of(hint, shards, prefix).stream(max(0, min(hint.priority, 9)))


def fields_of(hint: Hint) -> tuple[str, ...]:
    """An entry's fields and values."""
    return ("run", hint.run_id, "place", hint.place, "name", hint.name)


def read_entry(queue: str, priority: int, fields: Sequence[Any]) -> Hint | None:
    """The hint of an entry; None for one that is none of ours."""
    try:
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        return Hint(
            run_id=RunId(values["run"]),
            place=Place(values["place"]),
            queue=queue,
            name=values["name"],
            priority=priority,
        )
    except (KeyError, ValueError, TypeError):
        return None


# Takes new entries for a consumer: KEYS the streams of a slot, highest priority first; ARGV group, consumer, how many,
# how many of those longest waiting first, whatever their priority. Makes missing streams and groups, from the start: a
# group made at the end would skip what is there. Answers how many groups were made, then [number of the stream, 1 if
# taken for its age, id, fields]…
TAKE = """
local group, me = ARGV[1], ARGV[2]
local left, aged = tonumber(ARGV[3]), tonumber(ARGV[4])
local out, made = {}, 0
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 0 then
    redis.call('XGROUP', 'CREATE', key, group, '0', 'MKSTREAM')
    made = made + 1
  else
    local known = false
    for _, g in ipairs(redis.call('XINFO', 'GROUPS', key)) do
      if g[2] == group then known = true end
    end
    if not known then
      redis.call('XGROUP', 'CREATE', key, group, '0')
      made = made + 1
    end
  end
end
local function take(n, count, for_age)
  local read = redis.call(
    'XREADGROUP', 'GROUP', group, me, 'COUNT', count, 'STREAMS', KEYS[n], '>'
  )
  if not read then return 0 end
  for _, entry in ipairs(read[1][2]) do
    out[#out + 1] = {n, for_age, entry[1], entry[2]}
    left = left - 1
  end
  return #read[1][2]
end
local function head(key)
  local last = '0-0'
  for _, g in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    if g[2] == group then
      for i = 1, #g, 2 do
        if g[i] == 'last-delivered-id' then last = g[i + 1] end
      end
    end
  end
  local entry = redis.call('XRANGE', key, '(' .. last, '+', 'COUNT', 1)[1]
  if not entry then return nil end
  local ms, seq = string.match(entry[1], '^(%d+)-(%d+)$')
  return {tonumber(ms), tonumber(seq)}
end
while aged > 0 and left > 0 do
  local oldest, which = nil, 0
  for n, key in ipairs(KEYS) do
    local h = head(key)
    if h and (not oldest or h[1] < oldest[1] or (h[1] == oldest[1] and h[2] < oldest[2])) then
      oldest, which = h, n
    end
  end
  if which == 0 then break end
  take(which, 1, 1)
  aged = aged - 1
end
for n, _ in ipairs(KEYS) do
  if left <= 0 then break end
  take(n, left, 0)
end
return {made, out}
"""

# Puts entries back for others, at the end: KEYS a stream; ARGV group, then id, run, place, name of each. Only those
# that are pending still: else somebody else has them.
GIVE_BACK = """
local given = 0
for i = 2, #ARGV, 4 do
  if redis.call('XACK', KEYS[1], ARGV[1], ARGV[i]) == 1 then
    redis.call('XDEL', KEYS[1], ARGV[i])
    redis.call(
      'XADD', KEYS[1], '*', 'run', ARGV[i + 1], 'place', ARGV[i + 2], 'name', ARGV[i + 3]
    )
    given = given + 1
  end
end
return given
"""

# Forgets consumers with nothing pending: KEYS a stream; ARGV group, consumer, how long idle in ms. That consumer itself
# whenever, if the last is 0; else others so long idle. Looking and forgetting are one step, or an entry that is taken
# between them could be had by nobody.
SWEEP = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local gone = 0
local ok = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])
if ok.err then return 0 end
for _, c in ipairs(ok) do
  local facts = {}
  for i = 1, #c, 2 do facts[c[i]] = c[i + 1] end
  local mine = facts['name'] == ARGV[2]
  local idle = tonumber(ARGV[3])
  if facts['pending'] == 0 and ((idle == 0 and mine) or (idle > 0 and not mine
      and facts['idle'] >= idle)) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], facts['name'])
    gone = gone + 1
  end
end
return gone
"""

# What of a stream can still reach somebody: KEYS a stream; ARGV group, an id to begin behind, how many entries. An
# entry that the group has passed and nobody has pending (an odd failover) is dropped: it would hide that its task is
# lost.
# Answers the last id looked at ('' at the end), then run and place of each.
PRESENT = """
local entries = redis.call('XRANGE', KEYS[1], ARGV[2], '+', 'COUNT', ARGV[3])
local last = '0-0'
local groups = redis.pcall('XINFO', 'GROUPS', KEYS[1])
if not groups.err then
  for _, g in ipairs(groups) do
    if g[2] == ARGV[1] then
      for i = 1, #g, 2 do
        if g[i] == 'last-delivered-id' then last = g[i + 1] end
      end
    end
  end
end
local function number(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end
local last_ms, last_seq = number(last)
local out = {}
local behind = ''
for _, entry in ipairs(entries) do
  local ms, seq = number(entry[1])
  local alive = ms > last_ms or (ms == last_ms and seq > last_seq)
  if not alive then
    local p = redis.pcall('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
    alive = not p.err and #p > 0
  end
  if alive then
    local facts = {}
    for i = 1, #entry[2], 2 do facts[entry[2][i]] = entry[2][i + 1] end
    out[#out + 1] = {facts['run'] or '', facts['place'] or ''}
  else
    redis.call('XDEL', KEYS[1], entry[1])
  end
  behind = '(' .. entry[1]
end
if #entries < tonumber(ARGV[3]) then behind = '' end
return {behind, out}
"""

"""Clocks of a zone before 1900: what Spark took them to show when it wrote, and what they showed.

Java has two libraries of time. The older one, which Spark's legacy calendar is of, knows no local
mean time: before 1900 it goes by the standard time of today. The newer one goes by the zone
database, as Python does. Knows names of zones as Java does; nothing of files or calendars.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

import numpy as np

__all__ = ["FIRST_CERTAIN_TIME", "OldZone", "UnknownZoneError", "old_zone"]

FIRST_CERTAIN_TIME = -2_208_988_800_000_000
"""1900 in UTC, as microseconds since 1970: from here on both libraries show the same."""

_MICROS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR = 2022
"""Of the database that Spark 4 has its tables from: standard times of that year, and whose zones
had been joined by then. Zones have changed since, and what is in files has not."""
_FIRST_CHANGES, _LAST_CHANGES = datetime(1800, 1, 1, tzinfo=UTC), datetime(1900, 2, 1, tzinfo=UTC)
_STEP = timedelta(days=20)

_CUSTOM = re.compile(r"GMT([+-])(\d{1,2})(?::?(\d\d))?", re.ASCII)
_NOT_JAVAS = re.compile(r"(Z|UTC|UT|GMT)?([+-].*)?")
"""Spark takes such zones, and the older library takes them for UTC."""
_HOUR = 3600
_OFFSETS = {
    "EST": -5 * _HOUR, "MST": -7 * _HOUR, "HST": -10 * _HOUR, "EST5EDT": -5 * _HOUR,
    "CST6CDT": -6 * _HOUR, "MST7MDT": -7 * _HOUR, "PST8PDT": -8 * _HOUR,
    "CET": _HOUR, "MET": _HOUR, "EET": 2 * _HOUR, "WET": 0,
}  # fmt: skip
"""Names for no place, which the database has since given the past of one."""
_SHORT = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo", "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare",
    "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's own names."""

_JOINED = {
    "Africa/Abidjan": "Africa/Accra Africa/Bamako Africa/Banjul Africa/Conakry Africa/Dakar "
    "Africa/Freetown Africa/Lome Africa/Nouakchott Africa/Ouagadougou Africa/Timbuktu "
    "Atlantic/Reykjavik Atlantic/St_Helena Iceland",
    "Africa/Johannesburg": "Africa/Maseru Africa/Mbabane",
    "Africa/Lagos": "Africa/Bangui Africa/Brazzaville Africa/Douala Africa/Kinshasa "
    "Africa/Libreville Africa/Luanda Africa/Malabo Africa/Niamey Africa/Porto-Novo",
    "Africa/Maputo": "Africa/Blantyre Africa/Bujumbura Africa/Gaborone Africa/Harare Africa/Kigali "
    "Africa/Lubumbashi Africa/Lusaka",
    "Africa/Nairobi": "Africa/Addis_Ababa Africa/Asmara Africa/Asmera Africa/Dar_es_Salaam "
    "Africa/Djibouti Africa/Kampala Africa/Mogadishu Indian/Antananarivo Indian/Comoro "
    "Indian/Mayotte",
    "America/Panama": "America/Atikokan America/Cayman America/Coral_Harbour",
    "America/Phoenix": "America/Creston",
    "America/Puerto_Rico": "America/Anguilla America/Antigua America/Aruba America/Blanc-Sablon "
    "America/Curacao America/Dominica America/Grenada America/Guadeloupe America/Kralendijk "
    "America/Lower_Princes America/Marigot America/Montserrat America/Port_of_Spain "
    "America/St_Barthelemy America/St_Kitts America/St_Lucia America/St_Thomas America/St_Vincent "
    "America/Tortola America/Virgin",
    "America/Toronto": "America/Nassau",
    "Asia/Bangkok": "Asia/Phnom_Penh Asia/Vientiane Indian/Christmas",
    "Asia/Dubai": "Asia/Muscat Indian/Mahe Indian/Reunion",
    "Asia/Kuching": "Asia/Brunei",
    "Asia/Qatar": "Asia/Bahrain",
    "Asia/Riyadh": "Antarctica/Syowa Asia/Aden Asia/Kuwait",
    "Asia/Singapore": "Asia/Kuala_Lumpur",
    "Asia/Urumqi": "Antarctica/Vostok",
    "Asia/Yangon": "Indian/Cocos",
    "Europe/Belgrade": "Europe/Ljubljana Europe/Podgorica Europe/Sarajevo Europe/Skopje "
    "Europe/Zagreb",
    "Europe/Berlin": "Arctic/Longyearbyen Atlantic/Jan_Mayen Europe/Copenhagen Europe/Oslo "
    "Europe/Stockholm",
    "Europe/Brussels": "Europe/Amsterdam Europe/Luxembourg",
    "Europe/London": "Europe/Guernsey Europe/Isle_of_Man Europe/Jersey",
    "Europe/Paris": "Europe/Monaco",
    "Europe/Zurich": "Europe/Vaduz",
    "Indian/Maldives": "Indian/Kerguelen",
    "Pacific/Auckland": "Antarctica/McMurdo Antarctica/South_Pole",
    "Pacific/Guadalcanal": "Pacific/Pohnpei Pacific/Ponape",
    "Pacific/Guam": "Pacific/Saipan",
    "Pacific/Pago_Pago": "Pacific/Midway",
    "Pacific/Port_Moresby": "Antarctica/DumontDUrville Pacific/Chuuk Pacific/Truk Pacific/Yap",
    "Pacific/Tarawa": "Pacific/Funafuti Pacific/Majuro Pacific/Wake Pacific/Wallis",
}
"""Zones that the database took for one in 2022, since they agree from 1970 on. Some builds of it
keep them apart, and then times before 1900 would depend on the machine, by minutes."""
_SAME_AS = {name: zone for zone, names in _JOINED.items() for name in names.split()}

_CORRECTED = {
    "Africa/Maputo": (7200, 7820),
    "America/Matamoros": (-21600, -24000),
    "America/Nipigon": (-18000, -21184, -2366734016, -18000),
    "America/Rainy_River": (-21600, -22696, -2366732504, -21600),
    "America/Thunder_Bay": (-18000, -21420, -2366733780, -21600),
    "America/Yellowknife": (-25200, 0),
    "Antarctica/Casey": (39600, 0),
    "Asia/Choibalsan": (28800, 27480),
    "Asia/Manila": (28800, -57360, -3944621040, 29040, -2229321840, 28800),
    "Europe/Uzhgorod": (7200, 5352, -2500939752, 3600),
    "Europe/Zaporozhye": (7200, 8440, -2840149240, 8400),
}
"""Zones whose past was corrected later, or that were given up, as release 2022b has them: the
standard time and the first offset; the time, in UTC, of a change and the offset from then on. In
seconds."""


class UnknownZoneError(ValueError):
    """A zone that this machine has nothing of; whoever knows the file adds its name."""

    def __init__(self, zone: str) -> None:
        super().__init__(
            f"it has times before 1900 in Spark's legacy calendar, of the zone {zone!r}, which the "
            "time zone database of this machine does not have; `pip install tzdata` brings one"
        )


@dataclass(frozen=True, slots=True, eq=False)
class OldZone:
    """Clocks of a zone before 1900. All in microseconds."""

    standard: int
    """What the older library adds to UTC."""
    switches: np.ndarray
    """Readings of the clock from which on its offset is another one."""
    offsets: np.ndarray
    """What the newer one adds: the first up to the first switch, and so on."""

    def instants(self, readings: np.ndarray) -> np.ndarray:
        """Return when the zone's clocks showed some readings; the later one of two."""
        found: np.ndarray = self.offsets[np.searchsorted(self.switches, readings, side="right")]
        return readings - found


@lru_cache(maxsize=1024)
def old_zone(name: str) -> OldZone:
    """Return a zone by one of the names that Java has for it.

    >>> old_zone("GMT+01:00").standard
    3600000000

    Raises:
        UnknownZoneError: This machine does not know it.
    """
    offset = _OFFSETS.get(name)
    if offset is None:
        offset = _offset_of(name)
    if offset is not None:
        return _built(offset, offset, [])
    name = _SHORT.get(name, name)
    name = _SAME_AS.get(name, name)
    known = _CORRECTED.get(name)
    if known is None:
        return _from_database(name)
    standard, first, *changes = known
    return _built(standard, first, list(zip(changes[::2], changes[1::2], strict=True)))


def _offset_of(name: str) -> int | None:
    """Return the offset that a name is; None if it is that of a region."""
    custom = _CUSTOM.fullmatch(name)
    if custom is not None:
        sign, hours, minutes = custom[1], int(custom[2]), int(custom[3] or 0)
        if hours < 24 and minutes < 60:
            return (-1 if sign == "-" else 1) * (hours * _HOUR + minutes * 60)
    return 0 if _NOT_JAVAS.fullmatch(name) else None


def _built(standard: int, first: int, changes: list[tuple[int, int]]) -> OldZone:
    # Where clocks are put forward, Java counts the hours that never were by the offset before;
    # where they are put back, Spark takes the later of two times. Both is to switch here.
    switches = [time + after for time, after in changes]
    offsets = [first, *(after for _, after in changes)]
    return OldZone(
        standard * _MICROS,
        np.array(switches, np.int64) * _MICROS,
        np.array(offsets, np.int64) * _MICROS,
    )


def _from_database(name: str) -> OldZone:
    from zoneinfo import ZoneInfo  # a millisecond that hardly anyone needs

    try:
        zone = ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # none, or no name; a folder of them
        raise UnknownZoneError(name) from None
    # Summer is an hour more, whichever of the two the database calls the standard.
    standard = min(_at(zone, datetime(_YEAR, month, 1, tzinfo=UTC)) for month in range(1, 13))
    first = offset = _at(zone, _FIRST_CHANGES)
    changes = []
    at = _FIRST_CHANGES
    while at < _LAST_CHANGES:
        following = _at(zone, at + _STEP)
        if following != offset:
            changes.append((_change(zone, at, offset), following))
            offset = following
        at += _STEP
    return _built(standard, first, changes)


def _at(zone: tzinfo, time: datetime) -> int:
    """Return the offset of a zone at a time, in seconds."""
    offset = time.astimezone(zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def _change(zone: tzinfo, start: datetime, offset: int) -> int:
    """Return when the offset of a zone is first another one, in seconds; it is soon."""
    low = round((start - _EPOCH).total_seconds())
    high = low + round(_STEP.total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if _at(zone, _EPOCH + timedelta(seconds=middle)) == offset:
            low = middle
        else:
            high = middle
    return high

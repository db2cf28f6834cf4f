"""Tables of a corpus as DataFrame expressions: no row of events ever becomes a Python object.

    votes             who supported whom, in which term                          = dethrone.checkers.facts.votes
    elections         term, winner, rounds, votes, how long                      = checkers.facts.elections, by winner
    split_votes       terms in which several stood and none won                  = failover: split_votes
    windows           stretches in which a node certainly led                    = failover: what exposure is made of
    overlaps          two nodes certainly leading different terms at once        = failover: deposed_leader_exposure_ns
    faults            begin, end, victims, roles, outcome
    failovers         stages after each fault, censored where they were not reached    = failover: detect, elect, write
    availability      operations by minute of the run, and how they ended

Every table has ``run``, ``date`` and ``system``; times are ns since the run began. Where a property is written twice,
here and in a checker, tests on generated histories hold them equal. Out of scope: partitions as a cause of failovers
that hit the leader: whether a cut took its majority is a question about graphs, which the checker answers
(``leader_hit`` is null there). What files of older schemas lack, ``frames`` finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dethrone.harness.core.interfaces import declarations

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RUN = ("run", "date", "system")

ROUNDS = ("election_started", "campaign")
CAMPAIGNS = (*ROUNDS, "prevote_started")
"""As in ``dethrone.checkers.failover``: names of the notes by which a node seeks to lead; the first two make a
round."""

WRITES = ("append", "put", "cas", "write", "add", "enqueue", "publish", "propose", "txn")
"""As in ``dethrone.checkers.base``."""

MINUTE_NS = 60 * 10**9
BUCKET_NS = 10 * 10**9
"""Faults and what happened after them are brought together by these stretches of a run."""


def votes(events: DataFrame) -> DataFrame:
    """run, group, term, voter, incarnation, candidate, seq, at_ns."""
    from pyspark.sql import functions as sf

    return (
        events.filter(_VOTE)
        .filter("candidate is not null and candidate != ''")
        .select(
            *RUN,
            "group",
            "term",
            sf.col("node").alias("voter"),
            "incarnation",
            "candidate",
            "seq",
            _at().alias("at_ns"),
        )
    )


def elections(events: DataFrame) -> DataFrame:
    """run, group, term, winner, seq, at_ns, votes, rounds, began_ns, duration_ns.

    One row per winner (two of one term are a violation, and two rows). ``rounds``: terms in which a node stood since
    the term that was won before. ``began_ns``: the first note of these rounds; null, as ``duration_ns``, if there is
    none.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    winner = sf.when(sf.col("name") == "elected", sf.col("node"))  # a row without one: a node stood in that term
    terms = (
        _traced(events, ("elected", *ROUNDS))
        .filter("term > 0")
        .select(*RUN, "group", "term", winner.alias("winner"), "seq", _at().alias("at_ns"), "voters")
        .groupBy(*RUN, "group", "term", "winner")
        .agg(sf.min("seq").alias("seq"), sf.min("at_ns").alias("at_ns"), sf.max("voters").alias("votes"))
    )
    backwards = Window.partitionBy("run", "group").orderBy(sf.desc("term"))
    later = backwards.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    won = sf.min(sf.when(sf.col("winner").isNotNull(), sf.col("term"))).over(later)
    mine, stood = Window.partitionBy("run", "group", "won"), sf.col("winner").isNull()
    return (
        terms.withColumn("won", won)
        .filter("won is not null")
        .withColumn("rounds", sf.sum(stood.cast("bigint")).over(mine))
        .withColumn("began_ns", sf.min(sf.when(stood, sf.col("at_ns"))).over(mine))
        .filter("winner is not null")
        .withColumn(
            "duration_ns",
            sf.when(sf.col("began_ns").isNotNull(), sf.greatest(sf.col("at_ns") - sf.col("began_ns"), sf.lit(0))),
        )
        .select(*RUN, "group", "term", "winner", "seq", "at_ns", "votes", "rounds", "began_ns", "duration_ns")
    )


def split_votes(events: DataFrame) -> DataFrame:
    """run, group, term, candidates: terms in which several voted for themselves and none was elected."""
    from pyspark.sql import functions as sf

    voter = sf.when(sf.col("name") == "vote", sf.col("node"))  # a row without one: a node was elected in that term
    return (
        events.filter(f"({_VOTE}) or (type = 'traced' and name = 'elected' and term > 0)")
        .filter((sf.col("name") == "elected") | (sf.col("candidate") == sf.col("node")))
        .select(*RUN, "group", "term", voter.alias("voter"))
        .distinct()
        .groupBy(*RUN, "group", "term")
        .agg(sf.count("voter").alias("candidates"), sf.count("*").alias("rows"))
        .filter("candidates > 1 and candidates = rows")
        .select(*RUN, "group", "term", "candidates")
    )


def windows(events: DataFrame) -> DataFrame:
    """run, group, node, incarnation, term, lo_ns, hi_ns: between two polls in a row that both said that it leads."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    polls = events.filter("type = 'observed'").select(
        *RUN, "group", "node", "incarnation", "term", "leads", "seq", "lo", "hi"
    )
    order = Window.partitionBy("run", "group", "node").orderBy("hi", "seq")
    before = {name: sf.lag(name).over(order).alias(f"{name}_before") for name in ("incarnation", "term", "leads", "hi")}
    return (
        polls.select("*", *before.values())
        .filter("leads and term > 0 and leads_before and term_before = term and incarnation_before = incarnation")
        .filter("lo > hi_before")
        .select(
            *RUN,
            "group",
            "node",
            "incarnation",
            "term",
            sf.col("hi_before").alias("lo_ns"),
            sf.col("lo").alias("hi_ns"),
        )
    )


def overlaps(events: DataFrame) -> DataFrame:
    """run, group, lo_ns, hi_ns: stretches, none touching another, in which two nodes led different terms."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    # Windows of one node never overlap, so those of one term, made one, count once at any moment; and a moment at which
    # two terms count has two nodes. No window is compared with another: sums along the time.
    led = windows(events).repartition("run")
    first = Window.partitionBy("run", "group").orderBy("lo_ns", "hi_ns")
    reached = sf.max("hi_ns").over(first.rowsBetween(Window.unboundedPreceding, -1))
    crossed = led.withColumn("crosses", (reached > sf.col("lo_ns")) | (sf.lead("lo_ns").over(first) < sf.col("hi_ns")))
    terms = _merged(crossed.filter("crosses"), (*RUN, "group", "term"))
    edges = sf.array(
        sf.struct(sf.col("lo_ns").alias("lo_ns"), sf.lit(1).alias("step")),
        sf.struct(sf.col("hi_ns").alias("lo_ns"), sf.lit(-1).alias("step")),
    )
    # One row a moment: what ends there and what begins there do not meet.
    moments = (
        terms.select(*RUN, "group", sf.inline(edges)).groupBy(*RUN, "group", "lo_ns").agg(sf.sum("step").alias("step"))
    )
    time = Window.partitionBy("run", "group").orderBy("lo_ns")
    leading = moments.withColumn("terms", sf.sum("step").over(time)).withColumn("hi_ns", sf.lead("lo_ns").over(time))
    return _merged(leading.filter("terms > 1").select(*RUN, "group", "lo_ns", "hi_ns"), (*RUN, "group"))


def faults(events: DataFrame) -> DataFrame:
    """run, fault, kind, victims, roles, outcome, begin_lo_ns, begin_hi_ns, end_outcome, end_lo_ns, end_hi_ns.

    ``victims`` (array) and ``roles`` (map: host → what it was). One row per fault that began.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    end = sf.when(sf.col("phase") == "end", sf.struct("seq", "outcome", "lo", "hi"))
    rows = events.filter("type = 'fault'").select(
        *RUN, "fault", "name", "phase", "outcome", "seq", "lo", "hi", "victims", "roles"
    )
    ended = rows.withColumn("end", sf.max(end).over(Window.partitionBy("run", "fault")))
    return ended.filter("phase = 'begin'").select(
        *RUN,
        "fault",
        sf.col("name").alias("kind"),
        sf.from_json("victims", "array<string>").alias("victims"),
        _roles("roles").alias("roles"),
        "outcome",
        "seq",
        sf.col("lo").alias("begin_lo_ns"),
        sf.col("hi").alias("begin_hi_ns"),
        sf.col("end.outcome").alias("end_outcome"),
        sf.col("end.lo").alias("end_lo_ns"),
        sf.col("end.hi").alias("end_hi_ns"),
    )


def failovers(events: DataFrame) -> DataFrame:
    """run, fault, kind, leader_hit, since_ns, until_ns, rounds, and of each stage its ns and whether it is censored.

    For every fault that was certainly in force, from the moment since which it was: ``detect`` (another node seeks to
    lead), ``elect`` (a leader of a later term), ``write`` (the first write acknowledged after that). A stage not
    reached before the next fault, or the end of the run, is censored there.
    """
    from pyspark.sql import functions as sf

    spans = _beside_what_happened(_points(events))

    def inside(one: Column) -> Column:
        return (one["moment"] >= sf.col("since_ns")) & (one["moment"] <= sf.col("until_ns"))

    led = sf.filter("led", lambda one: inside(one) & (one["in"] > sf.col("term")))
    ran = sf.filter("ran", lambda one: inside(one) & (one["node"] != sf.col("leader")))
    found = (
        spans.withColumn("elect", sf.array_min(led))
        .withColumn("ran", ran)
        .groupBy(*RUN, "fault", "kind", "leader_hit", "seq", "since_ns", "until_ns")
        .agg(sf.min("elect").alias("elect"), sf.flatten(sf.collect_list("ran")).alias("ran"))
        .withColumn("elect_at", sf.col("elect.moment"))
    )
    write = sf.when(sf.col("elect.write_at") <= sf.col("until_ns"), sf.col("elect.write_at"))
    won = sf.coalesce("elect_at", "until_ns")
    stood = sf.filter("ran", lambda one: one["name"].isin(*ROUNDS) & (one["moment"] <= won))
    found = found.withColumns(
        {
            "detect_at": sf.array_min(sf.transform("ran", lambda one: one["moment"])),
            "write_at": write,
            "rounds": sf.size(sf.array_distinct(sf.transform(stood, lambda one: sf.struct(one["group"], one["in"])))),
        }
    )
    since, rest = sf.col("since_ns"), sf.greatest(sf.col("until_ns") - sf.col("since_ns"), sf.lit(0))
    stages = []
    for stage in ("detect", "elect", "write"):
        at = sf.col(f"{stage}_at")
        stages += [sf.coalesce(at - since, rest).alias(f"{stage}_ns"), at.isNull().alias(f"{stage}_censored")]
    return found.select(*RUN, "fault", "kind", "leader_hit", "seq", "since_ns", "until_ns", "rounds", *stages)


def availability(events: DataFrame) -> DataFrame:
    """run, minute, invoked, ok, failed, unknown, writes, writes_ok: by the minute in which operations were invoked."""
    from pyspark.sql import functions as sf

    asks, back = sf.col("type") == "invoke", sf.col("type") == "return"
    codes = sf.when(sf.col("status") == "ok", 0).when(sf.col("status") == "fail", 1).otherwise(2)
    return (
        events.filter("type in ('invoke', 'return')")
        .select(*RUN, "op", "type", "name", "status", "t", "seq")
        .groupBy(*RUN, "op")
        .agg(
            sf.count(sf.when(asks, 1)).alias("asked"),
            sf.max(asks & sf.col("name").isin(*WRITES)).alias("writes"),
            sf.min(sf.when(asks, sf.col("t"))).alias("t"),
            sf.min(sf.when(back, sf.col("seq") * 4 + codes)).alias("first"),  # numbers only: aggregated without a sort
        )
        .filter("asked > 0")
        .withColumn("status", sf.coalesce(sf.col("first") % 4, sf.lit(2)))
        .groupBy(*RUN, sf.floor(sf.col("t") / MINUTE_NS).alias("minute"))
        .agg(
            sf.sum("asked").alias("invoked"),
            _count(sf.col("status") == 0).alias("ok"),
            _count(sf.col("status") == 1).alias("failed"),
            _count(sf.col("status") == 2).alias("unknown"),
            _count(sf.col("writes")).alias("writes"),
            _count(sf.col("writes") & (sf.col("status") == 0)).alias("writes_ok"),
        )
    )


TABLES: Mapping[str, Callable[[Any], Any]] = {
    "votes": votes,
    "elections": elections,
    "split-votes": split_votes,
    "windows": windows,
    "overlaps": overlaps,
    "faults": faults,
    "failovers": failovers,
    "availability": availability,
}
"""Name → what makes the table of events."""


# --- parts ------------------------------------------------------------------------------------------------------


def _at() -> Column:
    """The latest moment at which an event can have happened."""
    from pyspark.sql import functions as sf

    return sf.col("hi")


def _traced(events: DataFrame, names: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as sf

    return events.filter("type = 'traced'").filter(sf.col("name").isin(*names))


_VOTE = "type = 'traced' and name = 'vote' and source = 'shell' and term > 0"


def _roles(json: str) -> Column:
    from pyspark.sql import functions as sf

    return sf.from_json(json, "map<string,string>")


def _points(events: DataFrame) -> DataFrame:
    """All that failovers are made of, a row per moment of a run: ``what`` happened at ``moment``.

    ``poll`` (the first report of a leader in a term, ``in``) · ``won`` · ``ran`` (a node seeks to lead) · ``ack`` (of a
    write; an operation returns once, and of more returns the first and the last count) · ``begin`` (of a fault that was
    not skipped, at its earliest) · ``since`` (a fault is in force) · ``stop`` · ``last`` (the end of all). One scan,
    which does without ``rest`` where files are new enough, and one aggregation by numbers, in which polls of one term
    and both ends of an operation become one row before anything is sent around.
    """
    from pyspark.sql import functions as sf

    of, name = sf.col("type"), sf.col("name")
    # A case, and the most frequent type first: it is asked of every event.
    wanted = (
        sf.when(of == "traced", name.isin(*CAMPAIGNS) | ((name == "elected") & (sf.col("term") > 0)))
        .when(of == "observed", sf.col("leads"))
        .when(of == "invoke", name.isin(*WRITES))
        .when(of == "return", sf.col("status") == "ok")
        .when(of == "fault", sf.col("phase") == "begin")
        .when(of == "mark", name == "stop")
    )
    kind = (
        sf.when(~sf.coalesce(wanted, sf.lit(False)), "last")
        .when(of.isin("invoke", "return"), "op")
        .when(of == "observed", "poll")
        .when(of == "fault", "fault")
        .when(of == "mark", "stop")
        .when(name == "elected", "won")
        .otherwise("ran")
    )
    what = sf.col("what")
    number = (
        sf.when(what == "op", sf.col("op"))
        .when(what == "poll", sf.col("term"))
        .when(what == "last", 0)
        .otherwise(sf.col("seq"))
    )
    # One column, which most rows have not: a row of ten nulls would be hashed and sent around a million times.
    detail = sf.when(
        ~what.isin("op", "poll", "last"),
        sf.struct("date", "system", "group", "name", "node", "fault", "outcome", "lo", "term", "roles"),
    )
    rows = (
        events.filter(wanted | sf.col("last_ns").isNotNull())
        .withColumn("what", kind)
        .select(
            "run",
            "what",
            number.alias("number"),
            detail.alias("detail"),
            sf.when(what == "stop", sf.col("t")).otherwise(sf.col("hi")).alias("at"),
            (of == "invoke").alias("writes"),
            sf.when(of == "return", sf.col("t")).alias("acked"),
            "last_ns",
        )
        .groupBy("run", "what", "number", "detail")
        .agg(
            sf.min("at").alias("at"),
            sf.max("writes").alias("writes"),
            sf.min("acked").alias("acked"),
            sf.max("acked").alias("acked_last"),
            sf.max("last_ns").alias("last_ns"),
        )
    )

    def point(word: str, at: str, condition: Column) -> Column:
        return sf.when(condition, sf.struct(sf.lit(word).alias("what"), sf.col(at).alias("moment")))

    written = (what == "op") & sf.col("writes") & sf.col("acked").isNotNull()
    points = sf.array(
        *(point(word, "at", what == word) for word in ("poll", "won", "ran", "stop")),
        point("ack", "acked", written),
        point("ack", "acked_last", written & (sf.col("acked_last") > sf.col("acked"))),
        point("begin", "detail.lo", (what == "fault") & (sf.col("detail.outcome") != "skipped")),
        point("since", "at", (what == "fault") & (sf.col("detail.outcome") == "installed")),
        point("last", "last_ns", sf.col("last_ns").isNotNull()),
    )
    return rows.select("run", "number", "detail", sf.inline(sf.array_compact(points)))


def _beside_what_happened(points: DataFrame) -> DataFrame:
    """Each fault in force, once for each ``BUCKET_NS`` of its time, joined with the events in there (``led``, ``ran``).

    ``until_ns``: the begin of the next fault, or the end of the run; ``term``: the largest term with a reported leader
    before it.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    moment, what, of_run = sf.col("moment"), sf.col("what"), Window.partitionBy("run")
    forwards, backwards = of_run.orderBy("moment"), of_run.orderBy(sf.desc("moment"))
    # A frame that grows costs a step a row, one that shrinks costs all that is left of it: hence both directions.
    not_before = backwards.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    later, before = (
        backwards.rangeBetween(Window.unboundedPreceding, -1),
        forwards.rangeBetween(Window.unboundedPreceding, Window.currentRow),
    )
    timed = (
        points.withColumn("write_at", sf.min(sf.when(what == "ack", moment)).over(not_before))
        .filter("what != 'ack'")
        .withColumn("next_ns", sf.min(sf.when(what == "begin", moment)).over(later))
        .filter("what != 'begin'")
        .withColumn("in", sf.coalesce("detail.term", sf.when(what == "poll", sf.col("number"))))
        .withColumn("term", sf.max(sf.when(what == "poll", sf.col("in"))).over(before))
        .withColumns(
            {
                "stop": sf.min(sf.when(what == "stop", sf.struct("number", "moment"))).over(of_run),
                "last_ns": sf.max(sf.when(what == "last", moment)).over(of_run),
            }
        )
        .filter("what not in ('stop', 'last')")
    )
    until = sf.coalesce("next_ns", "stop.moment", "last_ns")
    roles = _roles("detail.roles")
    leads = sf.map_keys(sf.map_filter(roles, lambda _, role: sf.lower(role) == "leader"))
    leader, name = sf.coalesce(sf.try_element_at(leads, sf.lit(1)), sf.lit("")), sf.col("detail.name")
    known = declarations().items()
    sure, cutting = ([kind for kind, one in known if one.harms == "process"], [kind for kind, one in known if one.cuts])
    hit = sf.when(name.isin(*sure), leader != "").when(~name.isin(*cutting), sf.lit(False))
    span = sf.struct(
        "run",
        "detail.date",
        "detail.system",
        "detail.fault",
        name.alias("kind"),
        sf.col("number").alias("seq"),
        leader.alias("leader"),
        hit.alias("leader_hit"),
        moment.alias("since_ns"),
        until.alias("until_ns"),
        sf.greatest(sf.coalesce("term", sf.lit(0)), sf.lit(0)).alias("term"),
    )
    last = sf.when(what == "since", sf.greatest(moment, until)).otherwise(moment)
    buckets = sf.sequence(sf.floor(moment / BUCKET_NS), sf.floor(last / BUCKET_NS))
    return (
        timed.withColumn("bucket", sf.explode(buckets))
        .groupBy("run", "bucket")
        .agg(
            sf.collect_list(sf.when(what == "since", span)).alias("spans"),
            sf.collect_list(sf.when(what.isin("poll", "won"), sf.struct("moment", "in", "write_at"))).alias("led"),
            sf.collect_list(
                sf.when(what == "ran", sf.struct("moment", "detail.group", "in", "detail.name", "detail.node"))
            ).alias("ran"),
        )
        .select(sf.explode("spans").alias("span"), "led", "ran")
        .select("span.*", "led", "ran")
    )


def _merged(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Stretches of one key that touch or overlap, made one."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    order = Window.partitionBy(*keys).orderBy("lo_ns", "hi_ns")
    reached = sf.max("hi_ns").over(order.rowsBetween(Window.unboundedPreceding, -1))
    begins = sf.when(reached.isNull() | (sf.col("lo_ns") > reached), 1).otherwise(0)
    numbered = rows.withColumn("begins", begins).withColumn("stretch", sf.sum("begins").over(order))
    merged = numbered.groupBy(*keys, "stretch").agg(sf.min("lo_ns").alias("lo_ns"), sf.max("hi_ns").alias("hi_ns"))
    return merged.drop("stretch")


def _count(condition: Column) -> Column:
    from pyspark.sql import functions as sf

    return sf.sum(sf.when(condition, 1).otherwise(0))

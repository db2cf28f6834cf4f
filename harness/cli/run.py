"""``dethrone run SYSTEM``: one run, its verdict and its reports."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from dethrone.harness.cli import flags, run_options, settings
from dethrone.harness.commands import run as run_command
from dethrone.harness.core.secrets import without_secrets
from dethrone.harness.engine.host.namespace_entry import enter
from dethrone.harness.engine.run.judgement import JSON_SCHEMA
from dethrone.harness.report import json_objects, scenario_outcome
from dethrone.harness.report.plain import output
from dethrone.harness.report.terminal import Screen


@click.command()
@click.argument("system", required=False)
@flags.run_flags()
@flags.screen_flags
@flags.ci_flags
@click.option("--dry-run", is_flag=True, help="draw and print the plan without touching a host")
@click.option("--show-config", is_flag=True, help="print the merged configuration and exit")
def run(
    *,
    system: str | None,
    given: Mapping[str, settings.Given],
    junit_xml: Path | None,
    github: bool,
    screen: Screen,
    dry_run: bool,
    show_config: bool,
) -> None:
    """Run SYSTEM (or the system of --scenario) under faults and judge its behaviour."""
    if show_config:
        merged = {key: {"value": one.value, "origin": one.origin} for key, one in given.items()}
        screen.result({"schema": JSON_SCHEMA, "command": "show-config", "config": without_secrets(merged)})
        if not screen.json:
            output(settings.show(given))
        return
    options = run_options.run_options(run_options.system_of(system, given), given)
    if dry_run:
        from dethrone.harness.engine.run import runner

        plan = runner.dry_run(options)
        screen.plan(plan)
        screen.result({"schema": JSON_SCHEMA, "command": "dry-run", "seed": plan.seed, "plan": plan})
        return
    enter(options.backend)
    done = run_command.run_and_report(options, screen, junit_xml=junit_xml, github=github)
    flags.print_annotations(done.annotations, as_json=screen.json)
    told = scenario_outcome.told(options.scenario, done.result.judgement)
    screen.scenario(told)
    screen.result({**json_objects.run_object(done.result, done.files, report=done.report), "scenario": told})
    sys.exit(done.result.exit_code)

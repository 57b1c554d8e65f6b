"""Options of `bench` alone."""

from pathlib import Path
from typing import Annotated

import typer

TasksOption = Annotated[
    list[str], typer.Option("--tasks", metavar="SPEC", help="A set, folder or file of tasks; repeatable.")
]
PolicyOption = Annotated[str, typer.Option("--policy", help="Who writes the kernels.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="RUN", help="Run folder; runs/bench-HASH by default.")
]
ProtocolOption = Annotated[
    str, typer.Option("--protocol", metavar="paper|matched|none", help="How runs are judged and counted.")
]
VariantOption = Annotated[
    str, typer.Option("--variant", metavar="NAME", help="An ablation of the agent, such as no-skill.")
]
OwnRulesOption = Annotated[
    str | None, typer.Option("--rules", metavar="practical|paper", help="With --protocol none.")
]
SamplesOption = Annotated[
    int, typer.Option("--samples", min=1, help="Attempts at each task; a run may be given more later.")
]
RunSeedOption = Annotated[int, typer.Option("--seed", help="What every sample's seed is derived from.")]
JobsOption = Annotated[
    int, typer.Option("--jobs", min=0, help="Episodes at a time; 0: what suits the device.")
]
CompileAheadOption = Annotated[
    int,
    typer.Option(
        "--compile-ahead", min=0, metavar="N",
        help="Compile the baselines of N tasks side by side on each GPU before the first episode.",
    ),
]  # fmt: skip
PoolOption = Annotated[str, typer.Option("--pool", metavar="NAME", help="Where submissions are judged.")]
WorkersOption = Annotated[
    int,
    typer.Option("--workers", min=0, help="Judgements at a time on the simulator; 0: as many as --jobs."),
]
MaxEpisodesOption = Annotated[int | None, typer.Option("--max-episodes", min=0, help="Of the run in all.")]
MaxHoursOption = Annotated[float | None, typer.Option("--max-hours", min=0, help="Of this start.")]
MaxGpuHoursOption = Annotated[
    float | None, typer.Option("--max-gpu-hours", min=0, help="Of judgements on GPUs, of the run in all.")
]
RunCostOption = Annotated[
    float | None, typer.Option("--max-cost", min=0, metavar="USD", help="Of the run in all; needs --price.")
]
FullSizeOption = Annotated[
    bool, typer.Option("--full-size", help="Never scale sizes down for the simulator.")
]
EpisodeTurnsOption = Annotated[
    int | None, typer.Option("--turns", min=1, help="Of an episode; the protocol's by default.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")]

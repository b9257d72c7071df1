"""Run ShinkaEvolve on the scripted model: `python shinka_run.py FOLDER URL CYCLES`, one proposal at a time."""

import sys

from shinka.core import EvolutionConfig, ShinkaEvolveRunner
from shinka.database import DatabaseConfig
from shinka.launch import LocalJobConfig

if __name__ == "__main__":
    folder, url, cycles = sys.argv[1:]
    ShinkaEvolveRunner(
        evo_config=EvolutionConfig(
            patch_types=["full"],
            patch_type_probs=[1.0],
            num_generations=int(cycles) + 1,
            llm_models=[f"local/scripted@{url}/v1"],
            llm_dynamic_selection=None,
            embedding_model=None,
            meta_rec_interval=None,
            init_program_path=f"{folder}/initial.py",
            results_dir=f"{folder}/out",
        ),
        job_config=LocalJobConfig(eval_program_path=f"{folder}/evaluator.py"),
        db_config=DatabaseConfig(db_path="programs.sqlite", num_islands=1),
        verbose=False,
        max_evaluation_jobs=1,
        max_proposal_jobs=1,
    ).run()

"""What every suite that is written from tables must do, checked on a few of its problems."""

from pathlib import Path

from ..config import Settings
from ..sandbox import Pool
from ..suites import Setup, Written, diagnose, find_checkout, write

_SEEDS = (0, 11)


class WrittenConformance:
    """Subclass it, name a suite, and pytest runs every check.

    Covers: `sampled` problems, spread over the suite, under the public seed and another.
    Does not cover: all of them; that is `python -m benchmarks.own_suites`.
    """

    least = 1
    """How many problems the suite promises."""
    sampled = 3
    """How many are admitted, under each seed."""

    def suite(self) -> Written:
        """Return the suite under test."""
        raise NotImplementedError

    def test_it_has_what_it_promises(self, tmp_path: Path) -> None:
        """There are enough problems, with names of their own and files that exist."""
        suite = self.suite()
        write(suite, tmp_path, 0)
        problems = suite.problems(tmp_path)
        assert len(problems) >= self.least
        assert len({p.name for p in problems}) == len(problems)
        assert all((tmp_path / p.file).is_file() and p.suite == suite.name for p in problems)

    def test_a_seed_writes_the_same_texts_and_another_seed_others(self) -> None:
        """Nothing but the seed decides on the sizes, and it does on those of nearly every problem."""
        suite = self.suite()
        one, same, other = suite.texts(3), suite.texts(3), suite.texts(4)
        assert one == same
        assert one.keys() == other.keys()
        assert sum(one[name] == other[name] for name in one) <= len(one) // 5

    def test_its_folder_is_found_without_a_checkout(self, tmp_path: Path, monkeypatch: object) -> None:
        """It is written once, where the cache is."""
        monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))  # type: ignore[attr-defined]  # pytest's, not ours
        folder = find_checkout(self.suite())
        assert folder is not None and folder.parent == tmp_path / "suites"
        assert find_checkout(self.suite()) == folder
        assert len(list(folder.parent.iterdir())) == 1

    def test_finished_kernels_are_found_in_any_language(self, tmp_path: Path) -> None:
        """A kernel named like its problem is its candidate, and another file is none."""
        write(self.suite(), tmp_path / "data", 0)
        problems = self.suite().problems(tmp_path / "data")
        kernel = tmp_path / "kernels" / f"{problems[0].name}.cpp"
        kernel.parent.mkdir(parents=True)
        kernel.write_text("")
        (tmp_path / "kernels" / "notes_of_mine.txt").write_text("")
        assert self.suite().candidates(tmp_path / "kernels", problems) == {problems[0].name: kernel}

    def test_its_tasks_refuse_wrong_answers_and_have_a_bound(self, tmp_path: Path) -> None:
        """Each sampled problem loads, catches every mutant that applies, and moves some bytes."""
        suite = self.suite()
        with Pool(Settings.from_environment(), arena_bytes=1 << 20) as pool:
            for seed in _SEEDS:
                data = tmp_path / str(seed)
                write(suite, data, seed)
                problems = suite.problems(data)
                step = max(1, len(problems) // self.sampled)
                chosen = problems[seed % step :: step][: self.sampled]
                for found in diagnose(Setup(suite, data, pool), chosen, admits=True):
                    assert found.says == "fit to judge by", f"{found.problem}: {found.says}"
                    assert found.tried >= 3
                    assert found.moved_bytes > 0

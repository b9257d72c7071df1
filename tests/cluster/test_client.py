"""This end of a cluster: jobs outlive drivers, and what cannot be used is told in a sentence."""

import pytest

from kernelwright.cluster import Cluster, Job, JobFailed, _client, check_address
from kernelwright.cluster._files import name_of, pack, unpacked
from kernelwright.errors import ClusterError, InputError, MissingToolError

DRIVER = "tests.cluster.planted_driver"


@pytest.fixture
def cluster(tmp_path):
    opened = []

    def open_it(faults="", **options):
        (tmp_path / "faults").write_text(faults)
        opened.append(Cluster(str(tmp_path / "faults"), driver=DRIVER, **options))
        return opened[-1]

    yield open_it
    for one in opened:
        one.close()


def jobs(count):
    return [Job(f"k{n}", f"{DRIVER}:echo", str(n)) for n in range(count)]


def test_jobs_outlive_drivers_that_crash(cluster, monkeypatch):
    monkeypatch.setattr(_client, "_RETRY_S", 0.05)
    seen = []
    one = cluster("crash crash behind", on_event=seen.append)
    answers = {job.key: answer.result() for job, answer in one.answers(jobs(8))}
    assert answers == {f"k{n}": f"{n} from planted" for n in range(8)}
    assert [event.kind for event in seen] == ["place", "driver", "place", "driver", "place"]
    starved = ["RAY_worker_niceness=0" in event.message for event in seen]
    assert starved == [False, False, False, False, True]


def test_a_driver_that_says_nothing_is_replaced(cluster, monkeypatch):
    monkeypatch.setattr(_client, "_RETRY_S", 0.05)
    monkeypatch.setattr(_client, "_STARTING_S", 3)
    assert cluster("mute").submit(jobs(1)[0]).result() == "0 from planted"


def test_where_there_is_no_cluster_all_jobs_fail_with_the_reason(cluster):
    one = cluster("refuse")
    with pytest.raises(ClusterError, match="cannot be used: nobody is there"):
        one.wait()
    with pytest.raises(ClusterError, match="nobody is there"):
        one.submit(jobs(1)[0]).result()


def test_a_job_that_kills_its_evaluators_fails_alone(cluster):
    one = cluster("poison")
    with pytest.raises(JobFailed, match="5 evaluators died of it"):
        one.submit(jobs(1)[0]).result()


def test_an_evaluator_of_another_version_is_not_used(cluster):
    seen = []
    one = cluster("other", patience_s=3, on_event=seen.append)
    with pytest.raises(ClusterError, match="no node had an evaluator for 3 s"):
        one.submit(jobs(1)[0]).result()
    assert seen[0].kind == "refused" and "planted is not used" in seen[0].message


def test_a_listener_that_fails_ends_the_jobs_with_the_reason(cluster):
    def closed(event):
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(ClusterError, match=r"events could not be told.*Broken pipe"):
        cluster(on_event=closed).submit(jobs(1)[0]).result()


def test_a_closed_cluster_cancels_what_is_open(cluster):
    one = cluster("mute")
    answer = one.submit(jobs(1)[0])
    one.close()
    assert answer.cancelled()
    with pytest.raises(ClusterError, match="was left"):
        one.submit(jobs(1)[0]).result()


def test_a_folder_is_unpacked_once_and_named_by_its_content(tmp_path):
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.txt").write_text("text")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("private")
    packed = pack(folder)
    home = unpacked(packed, tmp_path / "cache")
    assert [p.relative_to(home).as_posix() for p in home.rglob("*") if p.is_file()] == ["sub/a.txt"]
    assert home.name == name_of(pack(folder)) and unpacked(packed, tmp_path / "cache") == home


@pytest.mark.parametrize("address", ["", "head", "ray://", "http://a:1", "a:b"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(InputError, match="HOST:PORT"):
        check_address(address)


def test_without_ray_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("kernelwright.cluster._address.find_spec", lambda name: None)
    with pytest.raises(MissingToolError, match=r"pip install 'kernelwright\[ray\]'"):
        check_address("auto")

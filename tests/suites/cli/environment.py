# SPDX-License-Identifier: Apache-2.0
"""What a user's shell has reaches the program: variables, limits, the terminal, the arguments; and
the MPI below is the one that was registered."""
import json
import os
import pathlib
import pty
import select
import shlex
import shutil
import time

from support import fermata, mpis, process
from support.cases import Failed, check, check_equal, timeout
from suites.errors.errors_start import fake_mpi

USAGE, REFUSED = 2, 3
CARRIED = "FERMATA_USER_"
LIBRARIES = "LD_LIBRARY_PATH"


def _run(work, mpi, command, env=None, under=(), options=()):
    """What a program printed that `fermata run` has started as one rank."""
    words = [*under, fermata.FERMATA, "run", *(["--mpi", mpi] if mpi else []), *options, "--",
             *command]
    environment = {name: value for name, value in mpis.environment(
        FERMATA_DIR=str(work / "fermata"), **(env or {})).items() if value is not None}
    return process.run(words, 60, environment, work)


def _shim(work, name, text):
    """A directory that goes in front of PATH, with a script in it."""
    (work / "shim").mkdir(exist_ok=True)
    script = work / "shim" / name
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return f"{work / 'shim'}:{os.environ['PATH']}"


def _make_variables(mpi):
    def test(work):
        """Also those that Open MPI's mpirun changes; and nothing of ours is added."""
        path = _shim(work, "python3", "echo mine")
        check_equal(_run(work, mpi, ["python3", "-V"], {"PATH": path}).out, "mine\n",
                    "the program found")
        show = ["sh", "-c", 'env; command -v python3']
        for libraries in (None, "", "/first dir:/second;dir"):
            env = {"PATH": path, "LD_LIBRARY_PATH": libraries, "LC_ALL": "C.UTF-8", "TZ": "Here"}
            result = _run(work, mpi, show, env).expect_success("run")
            lines = result.out.split("\n")
            for name, value in env.items():
                wanted = [] if value is None else [f"{name}={value}"]
                found = [line for line in lines if line.startswith(f"{name}=")]
                check_equal(found, wanted, name)
            check(f"{work}/shim/python3" in lines, result.out)
            check(CARRIED not in result.out, result.out)
    return test


def _make_limits(mpi):
    def test(work):
        """Limits, the mask of modes, priority and directory."""
        script = "ulimit -S -a; ulimit -H -a; umask; nice; pwd"
        (work / "in here").mkdir()
        under = ["prlimit", "--core=1024", "--nofile=777:900", "--stack=9000000", "--cpu=5000",
                 "--memlock=4096000", "sh", "-c", 'umask 027; cd "in here"; exec nice -n 3 "$@"',
                 "sh"]
        alone = process.run([*under, "sh", "-c", script], cwd=work).expect_success("sh").out
        check("777" in alone and "027" in alone, alone)
        result = _run(work, mpi, ["sh", "-c", script], under=under).expect_success("run")
        check_equal(result.out, alone, "what a shell sees")
    return test


class Terminal:
    """An interactive shell with a terminal of its own."""

    def __init__(self, work):
        self.drawn = b""
        self.pid, self.ours = pty.fork()
        if self.pid == 0:
            os.chdir(work)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], mpis.environment(
                FERMATA_DIR=str(work / "fermata"), PS1="", TERM="dumb", INPUTRC="/dev/null"))

    def type(self, line):
        os.write(self.ours, line.encode() + b"\n")

    def wait_for(self, text, timeout_s=45):
        until = time.monotonic() + timeout_s
        while text not in self.drawn:
            if time.monotonic() > until:
                raise Failed(f"no {text!r} on the terminal:\n{self.drawn.decode(errors='replace')}")
            if select.select([self.ours], [], [], 0.2)[0]:
                self.drawn += os.read(self.ours, 65536)

    def close(self):
        process.kill_tree(self.pid)
        os.waitpid(self.pid, 0)
        os.close(self.ours)


def _make_background(mpi):
    @timeout(120)
    def test(work):
        """`fermata run ... &`: a shell stops who reads the terminal behind its back."""
        (work / "hold").touch()
        script = f"while test -e {shlex.quote(str(work))}/hold; do sleep 0.1; done; echo to the end"
        command = [fermata.FERMATA, "run", "--mpi", mpi, "--name", "job", "--", "sh", "-c", script]
        terminal = Terminal(work)
        try:
            terminal.type("set -b; " + shlex.join(map(str, command)) + " > out 2>&1 &")
            terminal.type("wait; echo has come to its 'end'")
            process.wait_until(lambda: any(map(process.is_launcher, process.descendants())), "rank")
            (work / "hold").unlink()
            terminal.wait_for(b"has come to its end")
        finally:
            terminal.close()
        check(b"Stopped" not in terminal.drawn, terminal.drawn.decode(errors="replace"))
        check_equal((work / "out").read_text(), "to the end\n", "what the job printed")
    return test


def _several(mpi, steps):
    program = mpis.program(mpi, "several")
    options = ["--steps", steps, "--step-ms", 60]
    return [program, "--role", 0, *options], [program, "--role", 1, *options]


def _make_several(mpi):
    @timeout(150)
    def test(work):
        """Of a job of two programs each rank has its own, after a restart elsewhere as well."""
        ocean, atmosphere = _several(mpi, 14)
        command = [*ocean, ":", "-n", 2, *atmosphere]
        native = mpis.native(mpi, [*ocean, ":", "-n", 2, *atmosphere], 1, work)
        expected = mpis.checksum(native.expect_success("several").out)
        job = fermata.Job(work)
        job.start(mpi, command, ranks=1)
        fermata.wait_for_step(job, 3)
        job.checkpoint_and_stop()
        shown = fermata.fermata(work, "inspect", job.name).expect_success("inspect").out
        check(f"  rank 0: {ocean[0]} --role 0" in shown, shown)
        check(f"  ranks 1 to 2: {ocean[0]} --role 1" in shown, shown)
        check("3 ranks" in shown, shown)
        job.restart(mpis.OTHER[mpi])
        fermata.wait_for_step(job, 6)
        job.checkpoint_and_stop()
        job.restart(mpi)
        check_equal(mpis.checksum(job.finish()), expected, "checksum")
    return test


@timeout(150)
def test_several_programs_that_save_themselves(work):
    """Those are started anew at a restart, each with its own arguments."""
    program = mpis.program("openmpi", "app_level")
    command = [program, "--steps", 20, "--step-ms", 40]
    both = [*command, "--mode", "fine", ":", *command, "--mode", "slow"]
    job = fermata.Job(work)
    (work / "job.hold.leave").touch()
    job.start("openmpi", both, ranks=1, options=["--checkpointer", "self"])
    fermata.wait_for_step(job, 4)
    job.checkpoint_and_stop()
    job.restart("mpich")
    text = job.finish()
    check("\nrank 1 saves\n" in text, f"rank 1 has lost its arguments:\n{text}")
    check_equal(mpis.checksum(text), mpis.expected("app_level", 2, 20), "checksum")


def test_several_programs_that_make_no_sense(work):
    for words, said in (([":", "true"], "no program on one side"), (["true", ":"], "no program"),
                        (["true", ":", "-n", "no", "true"], "a number of ranks"),
                        (["true", ":", "--host", "a", "true"], "'--host' behind ':'")):
        result = _run(work, "mpich", words)
        check_equal(result.code, USAGE, f"{words}: {result.err}")
        check(said in result.err, result.err)
    result = _run(work, "mpich", ["true", ":", "-n", "2", "./no-such-program"])
    check_equal(result.code, REFUSED, result.err)
    check("./no-such-program does not exist" in result.err, result.err)


def _chosen(work, command, path):
    result = _run(work, None, command, {"PATH": path}, options=["-n", 2, "--name", "chosen"])
    result.expect_success("run")
    record = json.loads((work / "fermata/chosen/job.json").read_text())
    shutil.rmtree(work / "fermata")
    return record["lower"]


def test_the_default_is_the_mpi_of_the_mpirun_in_path(work):
    for mpi in mpis.MPIS:
        directory = work / mpi
        directory.mkdir()
        (directory / "mpirun").symlink_to(shutil.which(mpis.mpirun(mpi, 1)[0]))
        path = f"{directory}:{os.environ['PATH']}"
        check_equal(_chosen(work, ["true"], path), mpi, "of a program without an MPI")
        linked = [mpis.program(mpis.OTHER[mpi], "selfcheck"), "--steps", 1]
        check_equal(_chosen(work, linked, path), mpis.OTHER[mpi], "of a program with another")


def _make_other_libraries(mpi):
    @timeout(90)
    def test(work):
        """Another MPI's module has put its libraries in front: the registered MPI runs on its own,
        and the program sees the module's variable."""
        name = "libopen-pal.so.40" if mpi == "openmpi" else "libmpich.so.12"
        (work / "module").mkdir()
        process.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", work / "module" / name,
                     f"-Wl,-soname,{name}"]).expect_success("gcc")
        program = mpis.program(mpi, "selfcheck")
        script = f"echo $LD_LIBRARY_PATH; exec {program} --steps 2"
        result = _run(work, mpi, ["sh", "-c", script], {"LD_LIBRARY_PATH": str(work / "module")},
                      options=["-n", 2]).expect_success("run")
        check_equal(mpis.checksum(result.out), mpis.expected("selfcheck", 2, 2), "checksum")
        check(f"{work / 'module'}\n" in result.out, result.out)
    return test


@timeout(180)
def test_the_lower_half_gets_the_libraries_that_were_recorded(work):
    """An MPI whose libraries were found by the LD_LIBRARY_PATH under which it was registered, and
    nowhere else, needs no module when a job runs; and the program does not see that."""
    (work / "module").mkdir()
    library = work / "module/libneeded.so"
    process.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", library,
                 "-Wl,-soname,libneeded.so"]).expect_success("gcc")
    mpi = fake_mpi(work, "-Wl,--no-as-needed", library)
    job = fermata.Job(work)
    job.fermata = fermata.installation(work) / "bin/fermata"
    without = {name: value for name, value in mpis.environment().items() if name != LIBRARIES}
    add = [job.fermata, "mpi", "add", mpi, "--name", "own"]
    process.run(add, 120, {**without, LIBRARIES: str(work / "module")}, work).expect_success("add")
    program = mpis.program("mpich", "selfcheck")
    script = f"echo ${{{LIBRARIES}-unset}}; exec {program} --steps 6 --step-ms 60"
    under = ["env", "-u", LIBRARIES]
    job.start("own", ["sh", "-c", script], under=under)
    fermata.wait_for_step(job, 2)
    needing = [pid for pid in process.descendants() if process.is_launcher(pid)
               and str(library) in pathlib.Path(f"/proc/{pid}/maps").read_text()]
    check_equal(len(needing), 2, "ranks with the library that the MPI needs")
    check_equal(job.running.out.count("unset\n"), 2, "what the program's shells see")
    job.checkpoint_and_stop()
    job.restart("own", under=under)
    check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, 6), "checksum")


LATIN = b"caf\xe9 1.in"


def _make_arguments(mpi):
    @timeout(120)
    def test(work):
        """Latin-1 in old input decks: the program gets the bytes, the records keep them."""
        out = work / "arguments"
        script = (f'printf "%s|" "$@" >> {shlex.quote(str(out))}; '
                  'exec "$PROGRAM" --steps 8 --step-ms 60')
        command = ["sh", "-c", script, "sh", os.fsdecode(LATIN), "plain"]
        job = fermata.Job(work)
        job.start(mpi, command, env={"PROGRAM": str(mpis.program(mpi, "selfcheck"))})
        fermata.wait_for_step(job, 2)
        job.checkpoint_and_stop()
        check_equal(out.read_bytes(), 2 * (LATIN + b"|plain|"), "arguments of both ranks")
        shown = fermata.fermata(work, "inspect", job.name).expect_success("inspect").out
        check(r"caf\xe9 1.in plain" in shown, shown)
        listed = fermata.as_json(fermata.fermata(work, "jobs", "--json"))[0]["argv"]
        check_equal(bytes(listed[4]), LATIN, "as jobs --json has it")
        job.restart(mpis.OTHER[mpi])
        check_equal(mpis.checksum(job.finish()), mpis.expected("selfcheck", 2, 8), "checksum")
    return test


def test_a_program_of_any_name_gives_a_job_its_name(work):
    program = work / os.fsdecode(b"caf\xe9 & co")
    shutil.copy("/bin/true", program)
    _run(work, "mpich", [program]).expect_success("run")
    check_equal([path.name for path in (work / "fermata").iterdir()], ["caf____co-1"], "its name")


@timeout(90)
def test_limited_address_space_is_named_once(work):
    """ulimit -v, which some batch systems set: before a rank starts, and by mpirun once, too."""
    said = "address space is limited to 8.0 GiB (ulimit -v)"
    program = mpis.program("openmpi", "selfcheck")
    under = ["prlimit", f"--as={8 << 30}"]
    result = _run(work, "openmpi", [program], options=["-n", 2], under=under)
    check_equal((result.code, result.err.count(said)), (REFUSED, 1), result.err)
    check("hint: ulimit -v unlimited" in result.err, result.err)
    check(not (work / "fermata").exists(), "a job was begun")
    for mpi in mpis.MPIS:
        command = [fermata.FERMATA, "exec", "--name", "job", mpis.program(mpi, "selfcheck")]
        result = process.run([*under, *mpis.mpirun(mpi, 2), *command], 60,
                             mpis.environment(FERMATA_DIR=str(work / "fermata")), work)
        check(result.code != 0 and result.err.count(said) == 1, f"{mpi}: {result.err}")
    enough = _run(work, "mpich", [mpis.program("mpich", "selfcheck"), "--steps", 2],
                  under=["prlimit", f"--as={48 << 30}"], options=["-n", 2])
    mpis.checksum(enough.expect_success("run with enough").out)


def generate():
    tests = {}
    for mpi in mpis.MPIS:
        tests[f"test_variables_{mpi}"] = _make_variables(mpi)
        tests[f"test_limits_{mpi}"] = _make_limits(mpi)
        tests[f"test_background_{mpi}"] = _make_background(mpi)
        tests[f"test_several_programs_{mpi}"] = _make_several(mpi)
        tests[f"test_other_libraries_in_front_{mpi}"] = _make_other_libraries(mpi)
        tests[f"test_arguments_that_are_not_utf_8_{mpi}"] = _make_arguments(mpi)
    return tests

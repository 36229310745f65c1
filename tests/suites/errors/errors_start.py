# SPDX-License-Identifier: Apache-2.0
"""Mistakes at the start: programs, MPIs and machines that cannot work. Each is refused before
anything runs, with a message that says what, where and what to do, and a stated exit code.
`./x errors` turns what these suites record into docs/reference/errors.md."""

from support import fermata, mpis, process
from support.cases import check, check_equal, timeout
from support.errors import NOTHING_RAN, REFUSED, expect, record
from support.mpis import ROOT
from support.namespaces import AS_ROOT, own_mounts

PROGRAMS, MPIS, MACHINE = "Programs", "MPI installations", "Machines"


def _refused_program(work, case, program, *words):
    result = fermata.fermata(work, "run", "-n", 2, "--mpi", "openmpi", "--", program)
    expect(record(PROGRAMS, case, result, REFUSED, NOTHING_RAN), *words)
    check(not (work / "fermata").exists(), "no job was made")


def _patched_elf(work, offset, byte):
    data = bytearray(mpis.program("openmpi", "selfcheck").read_bytes())
    data[offset] = byte
    path = work / "program"
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def test_program_not_in_path(work):
    _refused_program(work, "a name that is not in PATH", "no-such-program", "no-such-program",
                     "PATH", "hint")


def test_program_not_found(work):
    _refused_program(work, "a path that does not exist", work / "nothing", "does not exist", "hint")


def test_program_not_executable(work):
    path = work / "program"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o644)
    _refused_program(work, "a file that is not executable", path, "not executable", "chmod +x")


def test_program_is_a_directory(work):
    _refused_program(work, "a directory", work, "is a directory")


def test_program_static(work):
    (work / "program.c").write_text("int main(void) { return 0; }\n")
    process.run(["gcc", "-static", "-o", work / "program", work / "program.c"]
                ).expect_success("gcc -static")
    _refused_program(work, "a statically linked program", work / "program", "statically linked",
                     "-static")


def test_program_32_bit(work):
    (work / "program.s").write_text(".globl _start\n_start: movl $1, %eax\n int $0x80\n")
    process.run(["as", "--32", "-o", work / "program.o", work / "program.s"]).expect_success("as")
    process.run(["ld", "-m", "elf_i386", "-o", work / "program", work / "program.o"]
                ).expect_success("ld")
    _refused_program(work, "a 32-bit program", work / "program", "not a 64-bit program", "-m32")


def test_program_for_another_machine(work):
    aarch64 = 183
    _refused_program(work, "a program for another machine", _patched_elf(work, 18, aarch64),
                     "another machine", "hint")


def test_program_is_an_object_file(work):
    _refused_program(work, "an object file", _patched_elf(work, 16, 1), "object file", "link it")


def test_program_of_no_known_kind(work):
    path = work / "program"
    path.write_text("just text\n")
    path.chmod(0o755)
    _refused_program(work, "a text file without #!", path, "neither an ELF program nor a script")


# ---- MPIs ---------------------------------------------------------------------------------------

def fake_mpi(work, *link_flags):
    """An MPI of its own directory: MPICH's compiler wrapper and mpirun behind scripts."""
    tools = work / "mpi/bin"
    tools.mkdir(parents=True)
    flags = " ".join(map(str, link_flags))
    link = f'case " $* " in *" -c "*) ;; *) set -- "$@" {flags};; esac'
    for name, line in (("mpicc", f'{link}\nexec mpicc.mpich "$@"'),
                       ("mpirun", 'exec mpirun.mpich "$@"')):
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    return work / "mpi"


def _run(program, work, *arguments, timeout_s=120):
    return process.run([program, *arguments], timeout_s,
                       mpis.environment(FERMATA_DIR=str(work / "fermata")), work)


def test_mpi_not_registered(work):
    program = mpis.program("openmpi", "selfcheck")
    result = fermata.fermata(work, "run", "--mpi", "nothing", "--", program)
    expect(record(MPIS, "--mpi names none", result, REFUSED, NOTHING_RAN), "'nothing'",
           "openmpi", "mpich", "fermata mpi add")


def test_mpi_add_finds_no_compiler(work):
    result = fermata.fermata(work, "mpi", "add", work)
    expect(record(MPIS, "mpi add of a directory without bin/mpicc", result, REFUSED,
                  "the registered MPIs"), str("DIR"), "mpicc")


@timeout(180)
def test_mpi_that_was_uninstalled(work):
    program, mpi = fermata.installation(work) / "bin/fermata", fake_mpi(work)
    _run(program, work, "mpi", "add", mpi, "--name", "own").expect_success("mpi add")
    app = mpis.program("mpich", "selfcheck")
    done = _run(program, work, "run", "-n", "2", "--mpi", "own", "--", app, "--steps", "2")
    check_equal(mpis.checksum(done.expect_success("run").out), mpis.expected("selfcheck", 2, 2),
                "checksum while it is there")
    (mpi / "bin/mpirun").unlink()
    result = _run(program, work, "run", "-n", "2", "--mpi", "own", "--", app)
    text = record(MPIS, "an MPI that was uninstalled", result, REFUSED, NOTHING_RAN)
    expect(text, "'own'", "mpirun", "fermata mpi add")
    doctor = _run(program, work, "doctor")
    check("note MPI own" in doctor.out and "mpirun" in doctor.out, f"doctor says so:\n{doctor.out}")


@timeout(180)
def test_mpi_that_cannot_be_rewritten(work):
    bad = work / "libunusual.so"
    process.run(["gcc", "-shared", "-nostdlib", "-o", bad, ROOT / "tests/fixtures/sites/fs_base.S"]
                ).expect_success("gcc")
    program = fermata.installation(work) / "bin/fermata"
    mpi = fake_mpi(work, "-Wl,--no-as-needed", bad, f"-Wl,-rpath,{work}")
    result = _run(program, work, "mpi", "add", mpi, "--name", "own")
    text = record(MPIS, "an MPI whose code cannot be rewritten", result, REFUSED,
                  "the registered MPIs")
    expect(text, "libunusual.so", "FS base", "hint")
    check("own" not in _run(program, work, "mpi", "list").out, "it is not registered")


# ---- machines -----------------------------------------------------------------------------------

def _on_lesser_machine(work, tool, case, *words):
    """Runs under a tool that takes something away from the machine."""
    app = mpis.program("openmpi", "selfcheck")
    result = _run(tool, work, fermata.FERMATA, "run", "-n", "2", "--", app)
    expect(record(MACHINE, case, result, REFUSED, NOTHING_RAN), *words)
    doctor = _run(tool, work, fermata.FERMATA, "doctor")
    check_equal(doctor.code, 1, f"exit code of doctor\n{doctor.out}")
    check("BAD  the launcher" in doctor.out, f"doctor says so:\n{doctor.out}")


def test_machine_without_fsgsbase(work):
    _on_lesser_machine(work, mpis.harness(work, "without_fsgsbase"), "no FSGSBASE", "FSGSBASE",
                       "hint", "Linux 5.9")


def test_machine_that_forbids_seccomp(work):
    tool = mpis.harness(work, "without_call", "-DCALL=SYS_seccomp", "-DERROR=EPERM")
    _on_lesser_machine(work, tool, "no seccomp", "seccomp", "container")


def test_directory_that_is_not_writable(work):
    place = work / "fermata"
    place.mkdir()
    app = mpis.program("openmpi", "selfcheck")
    if AS_ROOT:
        script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
        wrapper = [*own_mounts(), "sh", "-c", script, "sh", place]
    else:
        place.chmod(0o500)
        wrapper = []
    command = [*wrapper, fermata.FERMATA, "run", "-n", "2", "--name", "job", "--", app]
    result = _run(command[0], work, *command[1:])
    expect(record(MACHINE, "--dir is not writable", result, REFUSED, NOTHING_RAN), "DIR/fermata",
           "hint", "--dir")

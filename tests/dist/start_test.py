"""Meeting: every way to say who one is, and every way to get it wrong. Nothing hangs."""

import os
import shutil
import signal
import socket
import subprocess
import time
import unittest

import ranks

SOON = 20.0  # seconds beyond a limit; a start takes one to two, more on busy machines, and --timeout is 30 here


def open_mpi(rank, world, port):
    return ranks.clean_environment(OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE=world,
                                   OMPI_COMM_WORLD_LOCAL_RANK=rank, OMPI_COMM_WORLD_LOCAL_SIZE=world,
                                   MASTER_PORT=port)


def pmi(rank, world, port):
    return ranks.clean_environment(PMI_RANK=rank, PMI_SIZE=world, MPI_LOCALRANKID=rank, MPI_LOCALNRANKS=world,
                                   MASTER_PORT=port)


def slurm(rank, world, port):
    return ranks.clean_environment(SLURM_JOB_ID=1, SLURM_STEP_ID=0, SLURM_PROCID=rank, SLURM_NTASKS=world,
                                   SLURM_LOCALID=rank, SLURM_NNODES=1, MASTER_PORT=port)


class Start(unittest.TestCase):
    def meets(self, job):
        job.finish()
        self.assertEqual([rank.out for rank in job.ranks], ["met\n"] * len(job.ranks), job.text())
        self.assertEqual(set(job.statuses), {0}, job.text())

    def refused(self, job, status, *sentences):
        job.finish()
        self.assertEqual(set(job.statuses), {status}, job.text())
        for rank in job.ranks:
            self.assertEqual(rank.err.count("\n"), 1, job.text())
            self.assertTrue(any(sentence in rank.err for sentence in sentences), job.text())

    def test_launchers(self):
        for environment in (ranks.torchrun_environment, open_mpi, pmi, slurm):
            with self.subTest(environment.__name__):
                self.meets(ranks.Job(2, "meet", environment=environment))

    def test_flags(self):
        port = ranks.free_port()
        for host in ("127.0.0.1", "localhost"):
            job = ranks.Job(0)
            job.ranks = [ranks.Rank(["--rank", str(r), "--world", "2", "--master", f"{host}:{port}", "meet"],
                                    ranks.clean_environment()) for r in range(2)]
            self.meets(job)

    def test_store_of_the_launcher(self):
        """TORCHELASTIC_USE_AGENT_STORE=True: nobody among the ranks serves."""
        agent = subprocess.Popen([ranks.WORKER, "serve"], env=ranks.clean_environment(), text=True,
                                 stdout=subprocess.PIPE)
        self.addCleanup(agent.stdout.close)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        port = int(agent.stdout.readline())
        for restart in (0, 1):  # both use the same store
            self.meets(ranks.Job(2, "meet", port=port, environment=lambda r, w, p: ranks.torchrun_environment(
                r, w, p, TORCHELASTIC_USE_AGENT_STORE=True, TORCHELASTIC_RESTART_COUNT=restart)))

    def test_listens_on_loopback_only(self):
        port = ranks.free_port()
        job = ranks.Job(2, "loop", port=port).wait_ready()
        listening = []
        for rank in job.ranks:
            inodes = set()
            for fd in os.listdir(f"/proc/{rank.process.pid}/fd"):
                try:
                    inodes.add(os.readlink(f"/proc/{rank.process.pid}/fd/{fd}"))
                except OSError:
                    pass
            for table in ("tcp", "tcp6"):
                with open(f"/proc/{rank.process.pid}/net/{table}") as lines:
                    for fields in map(str.split, list(lines)[1:]):
                        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                            listening.append(fields[1].split(":")[0])
        job.kill()
        self.assertGreaterEqual(len(listening), 3)  # the store, Gloo of both ranks
        self.assertEqual(set(listening) - {"0100007F", "00000000000000000000000001000000"}, set())

    def test_two_processes_with_one_rank(self):
        start = time.monotonic()
        self.refused(ranks.Job(3, "meet", only=(0, 1, 1)), 1, "two processes have rank 1")
        self.assertLess(time.monotonic() - start, SOON)

    def test_two_processes_with_rank_0(self):
        job = ranks.Job(3, "meet", only=(0, 0))
        start = time.monotonic()
        while all(rank.ended is None for rank in job.ranks) and time.monotonic() - start < SOON:
            job.ranks[0].threads[-1].join(0.05)
        second, first = sorted(job.ranks, key=lambda rank: rank.ended is None)
        self.assertEqual(second.finish(1), 1, second.err)
        self.assertIn("is in use, by another job or a second rank 0", second.err)
        # The one that got the port waits for the other ranks.
        self.assertIsNone(first.process.poll(), first.err)
        job.kill()

    def test_ranks_that_do_not_come_are_named(self):
        start = time.monotonic()
        self.refused(ranks.Job(4, "meet", only=(0, 2), start=5), 1, "ranks 1, 3 did not come in time")
        self.assertLess(time.monotonic() - start, 5 + SOON)

    def test_unreachable_master(self):
        start = time.monotonic()
        self.refused(ranks.Job(2, "meet", only=(1,), start=1), 1, "there is no response at 127.0.0.1:")
        self.assertGreater(time.monotonic() - start, 1)
        self.assertLess(time.monotonic() - start, 1 + SOON)

    def test_a_port_that_the_system_may_choose_itself(self):
        """With two ports to choose from, every other attempt would connect a socket with itself."""
        prefix = ["unshare", "--net", "--map-root-user", "sh", "-c",
                  "ip link set lo up && echo 20000 20001 > /proc/sys/net/ipv4/ip_local_port_range && exec \"$@\"", "sh"]
        if subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
            self.skipTest("no network namespace can be made and set up here")
        for port in (20000, 20001):
            job = ranks.Job(0)
            job.ranks = [ranks.Rank(["--start-timeout", "2", "meet"], ranks.torchrun_environment(1, 2, port), prefix)]
            self.refused(job, 1, "there is no response at 127.0.0.1:")

    def test_port_in_use(self):
        """Rank 0 sees it at once; the others talk to a stranger who never answers."""
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", 0))
            stranger.listen()
            port = stranger.getsockname()[1]
            start = time.monotonic()
            job = ranks.Job(2, "meet", port=port, start=3).finish()
            self.assertEqual(job.statuses, [1, 1], job.text())
            self.assertIn(f"port {port} of 127.0.0.1 is in use", job.ranks[0].err)
            self.assertIn("did not end within 3 s: it got as far as talking to the store", job.ranks[1].err)
            self.assertLess(time.monotonic() - start, 3 + SOON)

    def test_rank_0_stops_during_the_start(self):
        port = ranks.free_port()
        first = ranks.Job(2, "meet", port=port, only=(0,), start=20)
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                self.assertIsNone(first.ranks[0].process.poll(), first.ranks[0].err)
        first.ranks[0].process.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        second = ranks.Job(2, "meet", port=port, only=(1,), start=1).finish()
        self.assertLess(time.monotonic() - start, 1 + SOON)
        self.assertEqual(second.statuses, [1], second.text())
        first.kill()

    def test_different_worlds(self):
        port = ranks.free_port()
        job = ranks.Job(2, "meet", port=port, only=(0,))
        job.ranks += ranks.Job(3, "meet", port=port, only=(1,)).ranks
        self.refused(job, 1, "rank 1 was started with a world of 3 ranks, rank 0 with 2")

    def refused_alone(self, sentence, status=2, arguments=(), **environment):
        job = ranks.Job(0)
        job.ranks = [ranks.Rank([*arguments, "meet"], ranks.clean_environment(**environment))]
        self.refused(job, status, sentence)

    def test_wrong_environment(self):
        """One through the whole program; the reader's unit tests have all."""
        self.refused_alone("RANK is set without WORLD_SIZE", RANK=0)
        self.refused_alone("RANK is 2 but WORLD_SIZE is 2", RANK=2, WORLD_SIZE=2, MASTER_ADDR="x", MASTER_PORT=1)

    def test_several_machines_need_an_address(self):
        where = dict(RANK=1, WORLD_SIZE=2, MASTER_ADDR="192.0.2.1", MASTER_PORT=29500)
        self.refused_alone("give `listen` ADDRESS", **where)
        self.refused_alone('the address of "no-such-machine.invalid" cannot be found', status=1,
                           **{**where, "MASTER_ADDR": "no-such-machine.invalid"})

    def test_foreign_address_to_listen_on(self):
        self.refused_alone("is no address of this machine", status=1, arguments=("--listen", "192.0.2.1"), RANK=0,
                           WORLD_SIZE=2, MASTER_ADDR="192.0.2.1", MASTER_PORT=ranks.free_port())

    def test_listening_on_an_interface(self):
        for listen in ("lo", "127.0.0.1", "any"):
            self.meets(ranks.Job(2, "--listen", listen, "meet"))

    def test_nccl_without_its_module(self):
        self.refused_alone("the backend is nccl, but its module", arguments=("--backend", "nccl"))

    def test_timeout_out_of_range(self):
        for seconds in ("0.01", "1000000"):
            self.refused_alone("use 0.1 to 86400 seconds", arguments=("--timeout", seconds))


class TwoMachines(unittest.TestCase):
    """Two network namespaces joined by a cable."""

    def setUp(self):
        if not shutil.which("ip"):
            self.skipTest("network namespaces need the program ip (package iproute2)")
        names = [f"gbc{os.getpid()}{side}" for side in "ab"]
        commands = [f"netns add {name}" for name in names]
        commands.append(f"link add {names[0]} netns {names[0]} type veth peer name {names[1]} netns {names[1]}")
        for i, name in enumerate(names):
            commands += [f"-n {name} addr add 10.11.12.{i + 1}/24 dev {name}", f"-n {name} link set {name} up",
                         f"-n {name} link set lo up"]
            self.addCleanup(lambda name=name: subprocess.run(["ip", "netns", "del", name], capture_output=True))
        for command in commands:
            try:
                subprocess.run(["ip", *command.split()], check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                self.skipTest(f"no network namespaces can be made here: {getattr(error, 'stderr', error)}")
        self.names = names

    def start(self, listen, *scenario, timeout=20):
        def environment(rank):
            return ranks.torchrun_environment(rank, 2, 29500, MASTER_ADDR="10.11.12.1", LOCAL_RANK=0,
                                              LOCAL_WORLD_SIZE=1)
        job = ranks.Job(0)
        shared = ["--timeout", str(timeout), "--start-timeout", "100"]
        job.ranks = [ranks.Rank([*shared, "--listen", listen(i), *scenario], environment(i),
                                prefix=("ip", "netns", "exec", name)) for i, name in enumerate(self.names)]
        return job

    def test_meet(self):
        for listen in (lambda i: f"10.11.12.{i + 1}", lambda i: self.names[i], lambda i: "any"):
            job = self.start(listen, "collectives").finish()
            self.assertEqual(job.statuses, [0, 0], job.text())

    def test_cable_pulled(self):
        job = self.start(lambda i: "any", "loop", timeout=3).wait_ready()
        subprocess.run(["ip", "-n", self.names[0], "link", "set", self.names[0], "down"], check=True)
        since = time.monotonic()
        job.finish()
        self.assertEqual(job.statuses, [1, 1], job.text())
        self.assertLess(job.last_end() - since, 3 + 3, job.text())
        for rank, other in ((0, 1), (1, 0)):
            self.assertIn(f"rank {other} failed first: it has not been heard of for 3 s", job.ranks[rank].err)


class Torchrun(unittest.TestCase):
    def setUp(self):
        self.torchrun = os.environ.get("GBC_TORCHRUN")
        if not self.torchrun:
            self.skipTest("GBC_TORCHRUN does not name a torchrun")

    def run_ranks(self, *scenario, options=("--standalone",), **environment):
        return subprocess.run([self.torchrun, *options, "--no-python", "--nproc-per-node=3", ranks.WORKER, *scenario],
                              env=ranks.clean_environment(**environment), capture_output=True, text=True,
                              timeout=ranks.LIMIT)

    def test_both_stores(self):
        for disabled in (None, 1):  # with 1, torchrun leaves the store to rank 0
            done = self.run_ranks("collectives", TORCH_DISABLE_SHARE_RDZV_TCP_STORE=disabled)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_ranks("collectives", options=("--rdzv-backend=static", f"--master-port={ranks.free_port()}"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_its_summary_tells_the_cause(self):
        done = self.run_ranks("loop", "throw", "1", "20")
        self.assertNotEqual(done.returncode, 0)
        summary = done.stderr.partition("Root Cause")[2]
        self.assertIn("the loss is not a number", summary, done.stderr)

    def test_restart(self):
        """The second attempt finds the same store and is not confused by what the first left there."""
        done = self.run_ranks("loop", "throw", "1", "20", options=("--standalone", "--max-restarts=2"))
        self.assertEqual(done.stdout.count("ready"), 9, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Bellows and torchrun through the same events, with the same training loop.

    make build
    lab/torchelastic/side_by_side.py run --out results.jsonl --repeat 10
    lab/torchelastic/side_by_side.py table results.jsonl

On one machine, in turn: a node is one agent process on loopback with one
worker. The events are the same, as far as the two have the same ones: a node
comes (grow), a node is to go (shrink: SIGTERM of the torchrun agent; for
Bellows another job that needs the devices), a worker, a node and the node of
rank 0 are killed, a node freezes (SIGSTOP of all its processes).

Measured from the ranks' own log of steps: "down" is from the last step of the
old world to the first of the new one, "boot" the part of it in which Python
starts, imports torch and joins, and "own" the rest, which is the launcher's and
the saving of state. "lost" is how many steps were done twice. "start" is
from the START of the new world, which Bellows records, to its first step. For a
planned rescale "slower" is how much longer a step of the old world took from the
event on, while the next world was prepared, than in the seconds before it; the
course undisturbed measures a job that nothing happens to.

Launchers: bellows (losses and kills come when the next generation is prepared);
cold (bellows, with --cold-start); tuned (last_call_timeout=1, keep-alive 1 s x 3,
monitor_interval 0.1, TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: by default workers of
PyTorch 2.15 share the agents' store, where a world that has grown meets the keys of the
one before, and does not come up); default (all of torchrun's own defaults, slow).
"""

import argparse
import datetime
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN = os.path.join(HERE, "train.py")
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
ENV = dict(os.environ, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo", LOGLEVEL="WARNING")
STEADY = 2.0  # seconds that a new world has to step on before it counts
BEFORE = 5.0  # seconds of steps that a planned rescale's are compared with
UNDISTURBED = 300.0  # seconds that a job is watched in which nothing happens
CAP = 90.0  # seconds after which an event counts as not survived


class Lost(Exception):
    """The job did not go on."""


class Log:
    """What the ranks wrote: one entry for each life of a rank 0."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "steps.log")

    def lines(self):
        try:
            with open(self.path) as f:
                rows = [line.split() for line in f]
        except FileNotFoundError:
            return []
        return [(r[0], float(r[1]), int(r[2]), int(r[3]), int(r[4]), int(r[5]), r[6]) for r in rows if len(r) == 7]

    def worlds(self):
        """List lives of rank 0: dict(pid, launcher, world, born, first, last, begin, end)."""
        born, worlds = {}, {}
        for kind, at, step, world, rank, pid, launcher in self.lines():
            if rank != 0:
                continue
            if kind == "S":
                born[pid] = at
                continue
            w = worlds.setdefault(
                pid, dict(pid=pid, launcher=launcher, world=world, born=born.get(pid, at), first=at, begin=step)
            )
            w.update(last=at, end=step)
        return sorted(worlds.values(), key=lambda w: w["first"])

    def pace(self, pid, begin, end):
        """Return the mean seconds of a process's steps between two moments, or None."""
        at = [r[1] for r in self.lines() if r[0] == "L" and r[5] == pid and begin <= r[1] <= end]
        return (at[-1] - at[0]) / (len(at) - 1) if len(at) > 1 else None

    def ranks(self, world):
        """Map ranks of the newest world of this size to (pid, launcher)."""
        newest = {}
        for kind, _, _, size, rank, pid, launcher in self.lines():
            if kind == "L" and size == world:
                newest[rank] = (pid, launcher)
        return newest



def processes(needle):
    """List the processes whose command line has all of needle."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open("/proc/%d/cmdline" % int(entry), "rb") as f:
                words = f.read().split(b"\0")
        except (ValueError, OSError):
            continue
        if all(n.encode() in words for n in needle):
            found.append(int(entry))
    return found


def kill(pids, what):
    for pid in pids:
        try:
            os.kill(pid, what)
        except ProcessLookupError:
            pass


class Torchrun:
    """A job under torchrun: each agent stands for a node."""

    def __init__(self, directory, conf, monitor, keep_alive):
        self.directory, self.conf, self.agents = directory, conf, []
        self.flags = ["--monitor_interval=%s" % monitor] if monitor else []
        self.env = dict(ENV)
        if keep_alive:
            self.env.update(KEEP_ALIVE=keep_alive, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]

    def ready(self):
        pass

    def add_node(self):
        host = int(not self.agents)  # the first one hosts the store
        out = open(os.path.join(self.directory, "agent%d.log" % len(self.agents)), "wb")
        self.agents.append(
            subprocess.Popen(
                [PYTHON, os.path.join(HERE, "launcher.py"), "--nnodes=1:4", "--nproc_per_node=1", "--max_restarts=100"]
                + ["--rdzv_backend=c10d", "--rdzv_endpoint=127.0.0.1:%d" % self.port, "--rdzv_id=side"]
                + ["--rdzv_conf=is_host=%d%s" % (host, self.conf)]
                + self.flags
                + [TRAIN, self.directory],
                stdout=out, stderr=out, env=self.env, start_new_session=True,
            )  # fmt: skip
        )

    def begin(self, nodes):
        for _ in range(nodes):
            self.add_node()

    def grow(self, nodes):
        self.begin(nodes)

    def alive(self):
        return [a for a in self.agents if a.poll() is None]

    def running(self):
        return bool(self.alive())

    def await_standby(self):
        pass

    def start_of_world(self):
        return None

    def shrink(self, nodes):
        for agent in self.alive()[-nodes:]:
            agent.send_signal(signal.SIGTERM)

    def after_loss(self, nodes):
        return nodes - 1

    def _node(self, launcher):
        pid = int(launcher)
        return [pid] + [p for p in processes([TRAIN, self.directory]) if p != pid and parent(p) == pid]

    def kill_node(self, launcher):
        kill(self._node(launcher), signal.SIGKILL)

    def freeze_node(self, launcher):
        kill(self._node(launcher), signal.SIGSTOP)

    def end(self):
        for agent in self.agents:
            kill(self._node(str(agent.pid)), signal.SIGKILL)
            agent.wait()
        kill(processes([TRAIN, self.directory]), signal.SIGKILL)


def parent(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return int(f.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


class Bellows:
    """A job on a local cluster of four nodes with a device each."""

    def __init__(self, directory, binary, flags):
        self.directory, self.binary, self.flags = directory, binary, flags
        self.data = os.path.join(directory, "cluster")
        self.socket = os.path.join(directory, "s")
        self.down, self.others = {"n2", "n3", "n4"}, 0
        out = open(os.path.join(directory, "dev.log"), "wb")
        self.dev = subprocess.Popen(
            [binary, "dev", "--nodes", "4", "--devices-per-node", "1", "--policy", "share", "--interval", "500ms"]
            + ["--data-dir", self.data, "--socket", self.socket],
            stdout=out, stderr=out, env=ENV, start_new_session=True,
        )  # fmt: skip

    def ready(self):
        self._await(lambda nodes: sum(n["alive"] for n in nodes) == 4)
        for node in sorted(self.down):
            self._dev("kill", node)
        self._await(lambda nodes: sum(n["alive"] for n in nodes) == 1)

    def _call(self, *args):
        done = subprocess.run([self.binary] + list(args), env=ENV, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def _dev(self, what, node):
        done = subprocess.run([self.binary, "dev", what, node, "--socket", self.socket], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("bellows dev %s %s: %s" % (what, node, done.stderr.strip()))

    def _await(self, condition):
        deadline = time.time() + CAP
        while time.time() < deadline:
            text = self._call("nodes", "-o", "json", "--socket", self.socket)
            if text and condition(json.loads(text)):
                return
            time.sleep(0.2)
        raise RuntimeError("the cluster did not come up, see %s" % self.directory)

    def _submit(self, name, *args):
        out = self._call("run", "-d", "--socket", self.socket, "--name", name, "--workdir", self.directory, *args)
        if not out:
            raise RuntimeError("cannot submit %s, see %s" % (name, self.directory))

    def begin(self, nodes):
        self.grow(nodes - 1)
        command = ["--", PYTHON, TRAIN, self.directory]
        self._submit("a", "--max", "4", "--checkpoint-dir", self.directory + "/c", *self.flags, *command)

    def grow(self, nodes):
        if self.others:
            self._call("stop", "--socket", self.socket, "other-%d" % self.others)
            return
        for node in sorted(self.down)[:nodes]:
            self._dev("start", node)
            self.down.discard(node)

    def running(self):
        return self.dev.poll() is None

    def await_standby(self):
        """Wait until what the next generation starts from is ready, where there is such a thing."""
        deadline = time.time() + CAP
        while not self.flags and time.time() < deadline:
            job = json.loads(self._call("show", "a", "-o", "json", "--socket", self.socket) or "{}")
            following = job.get("next") or []
            if following and all(n["ready"] or n.get("cold") for n in following):
                return
            time.sleep(0.2)

    def start_of_world(self):
        """Return when the coordinator decided the START of the newest world, or None."""
        job = json.loads(self._call("show", "a", "-o", "json", "--socket", self.socket) or "{}")
        return at(job["rescales"][-1]["at"]) if job.get("rescales") else None

    def shrink(self, nodes):
        self.others += 1
        self._submit("other-%d" % self.others, "--min", str(nodes), "--max", str(nodes), "--", "sleep", "10000")

    def after_loss(self, nodes):
        return {4: 2, 3: 2, 2: 1}[nodes]  # powers of two

    def kill_node(self, launcher):
        self._dev("kill", launcher)
        self.down.add(launcher)

    def freeze_node(self, launcher):
        agents = [p for p in processes([self.binary, "agent", launcher]) if parent(p) == self.dev.pid]
        workers = [p for p in processes([TRAIN, self.directory]) if ("BELLOWS_NODE=" + launcher) in environment(p)]
        kill(agents + workers + [parent(p) for p in workers], signal.SIGSTOP)
        self.down.add(launcher)

    def end(self):
        self.dev.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.dev.send_signal(signal.SIGINT)
        self.dev.wait()
        kill(processes([TRAIN, self.directory]), signal.SIGKILL)


def at(text):
    """Return the seconds since 1970 of a moment as JSON has it: Python 3.9 reads six digits of a second, and no Z."""
    whole, fraction, zone = re.fullmatch(r"([^.Z+]+)(\.\d+)?(Z|[+-]\d\d:\d\d)", text).groups()
    zone = "+00:00" if zone == "Z" else zone
    return datetime.datetime.fromisoformat(whole + zone).timestamp() + float(fraction or 0)


def environment(pid):
    try:
        with open("/proc/%d/environ" % pid, "rb") as f:
            return f.read().decode(errors="replace").split("\0")
    except OSError:
        return []


BELLOWS = {"bellows": [], "cold": ["--cold-start"]}  # flags of bellows run
CONFIGS = {
    "bellows": None,
    "cold": None,
    "tuned": (",last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3", "0.1", "1,3"),
    "default": ("", None, None),
}


class Course:
    """One job led through a list of events."""

    def __init__(self, job, directory, emit):
        self.job, self.log, self.emit = job, Log(directory), emit

    def settle(self, planned):
        if not planned:
            self.job.await_standby()
        time.sleep(random.uniform(0.5, 2.0))

    def await_world(self, name, size, since, old, planned=False):
        """Wait for a world of the size that began after since and steps on, and report the event."""
        while True:
            now = time.time()
            new = [w for w in self.log.worlds() if w["first"] > since and (old is None or w["pid"] != old["pid"])]
            if new and new[-1]["world"] == size and new[-1]["last"] - new[-1]["first"] > STEADY and now - new[-1]["last"] < 1:
                break
            if now - since > CAP or not self.job.running():
                self.emit(event=name, survived=False, after=now - since, running=self.job.running())
                raise Lost(name)
            time.sleep(0.05)
        world = new[-1]
        result = dict(event=name, survived=True, resumed=world["first"] - since, worlds=len(new))
        if old is not None:
            old = next(w for w in self.log.worlds() if w["pid"] == old["pid"])
            down = world["first"] - old["last"]
            boot = world["first"] - world["born"]
            result.update(down=down, boot=boot, own=down - boot, lost=old["end"] - (world["begin"] - 1))
            started = self.job.start_of_world()
            if started:
                result.update(start=world["first"] - started)
            before = self.log.pace(old["pid"], since - BEFORE, since)
            meanwhile = self.log.pace(old["pid"], since, old["last"])
            if planned and before and meanwhile:
                result.update(before=before, meanwhile=meanwhile, slower=meanwhile / before - 1)
        self.emit(**result)

    def now(self):
        return self.log.worlds()[-1]

    def event(self, name, size, act, planned=False):
        """Do act to a job that steps; it is to go on with size workers."""
        self.settle(planned)
        old, since = self.now(), time.time()
        act()
        self.await_world(name, size, since, old, planned)

    def start(self, nodes):
        since = time.time()
        self.job.begin(nodes)
        self.await_world("start %d" % nodes, nodes, since, None)

    def grow(self, start, end):
        self.event("grow %d to %d" % (start, end), end, lambda: self.job.grow(end - start), planned=True)

    def shrink(self, start, end):
        self.event("shrink %d to %d" % (start, end), end, lambda: self.job.shrink(start - end), planned=True)

    def watch(self, seconds):
        """Let the job train and report the pace of its steps."""
        since = time.time()
        time.sleep(seconds)
        now = self.now()
        one = now["first"] < since and now["last"] > since + seconds - 1
        self.emit(event="undisturbed", survived=one, pace=self.log.pace(now["pid"], since, since + seconds))

    def crash(self, size):
        victim = self.log.ranks(size)[size - 1][0]
        self.event("worker killed, %d" % size, size, lambda: kill([victim], signal.SIGKILL))

    def lose(self, size, rank, name):
        node = self.log.ranks(size)[rank][1]
        self.event("%s, %d" % (name, size), self.job.after_loss(size), lambda: self.job.kill_node(node))

    def freeze(self, size):
        node = self.log.ranks(size)[size - 1][1]
        self.event("node frozen, %d" % size, self.job.after_loss(size), lambda: self.job.freeze_node(node))


def planned(course):
    course.start(1)
    course.grow(1, 2)
    course.grow(2, 4)
    course.shrink(4, 2)
    course.grow(2, 4)
    course.crash(4)
    course.lose(4, 3, "node killed")


def rescales(course):
    course.start(1)
    course.grow(1, 2)
    course.crash(2)
    course.grow(2, 4)
    course.shrink(4, 2)
    course.grow(2, 4)
    course.crash(4)


def losses(course):
    course.start(2)
    course.crash(2)
    course.lose(2, 1, "node killed")
    course.grow(1, 2)
    course.lose(2, 0, "node of rank 0 killed")


def undisturbed(course):
    course.start(2)
    course.watch(UNDISTURBED)


def freezing(course):
    course.start(2)
    course.freeze(2)


COURSES = {"planned": planned, "rescales": rescales, "losses": losses, "freezing": freezing, "undisturbed": undisturbed}


def run(args):
    binary = os.path.abspath(args.bellows)
    if set(BELLOWS) & set(args.launchers) and not os.path.exists(binary):
        sys.exit("no %s: make build, or --bellows PATH" % binary)
    for repeat in range(args.repeat):
        for course in args.courses:
            for launcher in args.launchers:
                one(args, binary, launcher, course, repeat)


def one(args, binary, launcher, course, repeat):
    directory = tempfile.mkdtemp(prefix="side-")

    def emit(**result):
        result.update(launcher=launcher, course=course, repeat=repeat, load=os.getloadavg()[0])
        with open(args.out, "a") as f:
            f.write(json.dumps(result) + "\n")
        print(json.dumps(result), flush=True)

    conf = CONFIGS[launcher]
    job = Torchrun(directory, *conf) if conf else Bellows(directory, binary, BELLOWS[launcher])
    kept = False
    try:
        job.ready()
        COURSES[course](Course(job, directory, emit))
    except Lost:
        kept = launcher in BELLOWS  # that is to be looked into
    except RuntimeError as err:
        kept = True
        print(err, file=sys.stderr)
    finally:
        job.end()
        if kept:
            print("what is left of it lies in %s" % directory, file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)


def table(args):
    results = []
    for name in args.results:
        with open(name) as f:
            results += [json.loads(line) for line in f]
    launchers = [c for c in CONFIGS if any(r["launcher"] == c for r in results)]
    events = list(dict.fromkeys(r["event"] for r in results if r["event"] != "undisturbed"))
    print("| event |" + "".join(" %s: down | boot | own | start | lost |" % c for c in launchers))
    print("|---|" + "---:|---:|---:|---:|---:|" * len(launchers))
    for event in events:
        row = "| %s |" % re.sub(r", (\d+)$", r", \1 workers", event)
        for c in launchers:
            mine = [r for r in results if r["launcher"] == c and r["event"] == event]
            row += cells(mine)
        print(row)
    print("\nSeconds, median / max (repeats); lost: steps, median / max.")
    for c in launchers:
        slower = [100 * r["slower"] for r in results if r["launcher"] == c and "slower" in r]
        if slower:
            print("%s: steps took %s %% longer while the next world was prepared (%d)" % (c, spread(slower), len(slower)))
        paces = [1000 * r["pace"] for r in results if r["launcher"] == c and r.get("pace") and r["survived"]]
        if paces:
            print("%s: steps of a job that is not rescaled took %s ms (%d)" % (c, spread(paces, "%.2f"), len(paces)))


def cells(mine):
    if not mine:
        return " – | – | – | – | – |"
    good = [r for r in mine if r["survived"]]
    if not good:
        return " **never**, 0 of %d | – | – | – | – |" % len(mine)
    note = " (%d)" % len(good) if len(good) == len(mine) else " (%d of %d)" % (len(good), len(mine))
    if "down" not in good[0]:
        return " %s%s | – | – | – | – |" % (spread([r["resumed"] for r in good]), note)
    starts = [r["start"] for r in good if "start" in r]
    return " %s%s | %s | %s | %s | %s |" % (
        spread([r["down"] for r in good], "%.2f"), note,
        spread([r["boot"] for r in good], "%.2f"),
        spread([r["own"] for r in good], "%.2f"),
        spread(starts, "%.2f") if starts else "–",
        spread([r["lost"] for r in good], "%d"),
    )  # fmt: skip


def spread(values, form="%.1f"):
    values = sorted(values)
    return (form + " / " + form) % (values[len(values) // 2], values[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="go through the events, adding a line of JSON for each to --out")
    runs.add_argument("--launchers", nargs="+", choices=CONFIGS, default=["bellows", "tuned"])
    runs.add_argument("--courses", nargs="+", choices=COURSES, default=["planned", "losses", "freezing"])
    runs.add_argument("--repeat", type=int, default=10)
    runs.add_argument("--out", required=True)
    runs.add_argument("--bellows", default=os.path.join(HERE, "..", "..", "bin", "bellows"))
    runs.set_defaults(do=run)
    tables = commands.add_parser("table", help="print the results as a Markdown table")
    tables.add_argument("results", nargs="+")
    tables.set_defaults(do=table)
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    main()

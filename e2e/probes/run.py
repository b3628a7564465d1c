#!/usr/bin/env python3
"""Runs the probes of this directory with cold and with warm starts and compares what they say.

    python3 e2e/probes/run.py                      # all probes, cold against warm
    python3 e2e/probes/run.py env_copy seed_random # some of them
    python3 e2e/probes/run.py --only-cold          # cold against cold: has to show no difference

See README.md beside this file. Exit status: 0 no difference, 1 differences or broken probes, 2 wrong usage.
"""

import argparse
import json
import os
import queue
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime

HERE = os.path.dirname(os.path.abspath(__file__))
FRAMEWORKS = os.path.expanduser("~/.cache/bellows/frameworks/current/bin/python")
LINE = re.compile(r"^(FACT|DRAW|TIME|LATE) rank=(\S*) world=(\S*) gen=(\S*) name=(\S+) value=(.*)$")
SLACK = 0.05  # seconds by which clocks and their ticks may differ


class Broken(Exception):
    """A run came to no end that can be compared."""


def directives(path):
    """The comments `# needs:`, `# setup:`, `# command:`, `# env:`, `# run:` at a probe's begin."""
    found = {"needs": [], "setup": [], "command": None, "env": [], "run": []}
    with open(path) as f:
        for line in list(f)[:12]:
            m = re.match(r"# (needs|setup|command|env|run): (.*)", line)
            if not m:
                continue
            key, value = m.group(1), m.group(2).strip()
            if key == "needs":
                found[key] += value.split()
            elif key == "run":
                found[key] += shlex.split(value)
            elif key == "command":
                found[key] = value
            else:
                found[key].append(value)
    return found


def has(python, modules):
    """Whether an interpreter has these modules."""
    if not python or not shutil.which(python):
        return False
    code = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in sys.argv[1:]))"
    return subprocess.run([python, "-c", code, *modules], stderr=subprocess.DEVNULL).returncode == 0


def moment(text):
    """The Unix time of an RFC 3339 text with nanoseconds."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(whole + "+00:00").timestamp() + (float("0." + fraction) if fraction else 0)


class Cluster:
    """A `bellows dev` of two nodes with two devices each."""

    def __init__(self, bellows, root):
        self.bellows, self.root = bellows, root
        os.makedirs(root)
        self.env = dict(os.environ, BELLOWS_SOCKET=os.path.join(root, "s"))
        for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONUNBUFFERED"):
            self.env.pop(name, None)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.log = open(os.path.join(root, "dev.log"), "w+")
        self.dev = subprocess.Popen(
            [bellows, "dev", "--nodes", "2", "--devices-per-node", "2", "--interval", "300ms",
             "--etcd-port", str(port), "--data-dir", os.path.join(root, "d")],
            env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        end = time.time() + 60
        while "ready in" not in open(self.log.name).read():
            if self.dev.poll() is not None or time.time() > end:
                raise Broken("the cluster does not start: " + open(self.log.name).read()[-500:])
            time.sleep(0.1)

    def call(self, *args, env=None, cwd=None, check=True):
        p = subprocess.run([self.bellows, *args], env=env or self.env, cwd=cwd, text=True, errors="replace",
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        if check and p.returncode != 0:
            raise Broken("bellows %s: %s" % (" ".join(args[:2]), p.stderr.strip()[-500:]))
        return p.stdout

    def show(self, job):
        return json.loads(self.call("show", job, "-o", "json"))

    def lines(self, job, *args):
        out = self.call("logs", job, "-o", "json", *args, check=False)
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def close(self):
        if self.dev.poll() is None:
            self.dev.send_signal(signal.SIGINT)
            try:
                self.dev.wait(40)
            except subprocess.TimeoutExpired:
                self.dev.kill()
        self.log.close()


class Run:
    """What one job said, over all of its generations."""

    def __init__(self):
        self.lines = {}     # generation → what `bellows logs` has of it
        self.said = {}      # (generation, rank) → list of (kind, name, value as JSON text)
        self.output = {}    # (generation, rank) → its other lines
        self.worlds = {}    # generation → world size
        self.starts = {}    # generation → Unix time of its START
        self.members = []   # (generation, node, "warm" or why cold, where parked)
        self.job = {}       # facts of the whole job
        self.broken = None  # why it came to no end
        self.wrong = []     # what is wrong with the lines themselves


def gather(cluster, job, run):
    """Keeps the lines of all generations: the command shows those of the newest ones alone."""
    by = {}
    for line in cluster.lines(job):
        by.setdefault(line["generation"], []).append(line)
    run.lines.update(by)


def collect(cluster, job, run):
    """Reads a job's logs and its history into run."""
    state = cluster.show(job)
    for r in state.get("rescales", []):
        run.worlds[r["generation"]], run.starts[r["generation"]] = r["to"], moment(r["at"])
    run.job = {"(restarts)": state["restarts"], "(phase)": state["phase"], "(exit code)": state.get("exit_code")}
    if state.get("failure"):
        run.job["(failure)"] = state["failure"].get("kind")
    gather(cluster, job, run)
    for line in [line for gen in sorted(run.lines) for line in run.lines[gen]]:
        gen, rank = line["generation"], line["rank"]
        said, output = run.said.setdefault((gen, rank), []), run.output.setdefault((gen, rank), [])
        text = re.sub(re.escape(cluster.root) + r"/d/run/[^/]+/[^/\":]+", "RUN", line["text"]).replace(job, "JOB")
        m = LINE.match(text)
        if not m:
            text = "…" if re.match(r"step \d+$", text) else text
            if text != "…" or output[-1:] != ["…"]:
                output.append(text)
            continue
        kind, r, w, g, name, value = m.groups()
        if (r, w, g) != (str(rank), str(run.worlds.get(gen)), str(gen)):
            run.wrong.append("generation %d, rank %d calls itself rank %s of %s in generation %s" % (gen, rank, r, w, g))
        name += "".join("'" for k, n, _ in said if n.rstrip("'") == name)
        try:
            said.append((kind, name, json.dumps(json.loads(value), sort_keys=True)))
        except ValueError:
            run.wrong.append("%s of rank %d is not JSON: %.80s" % (name, rank, value))


def perform(cluster, name, spec, python, cold, options):
    """Runs one probe once over all sizes."""
    work = os.path.join(options.root, "work", name)
    shutil.rmtree(work, ignore_errors=True)
    source = os.path.join(work, "src")
    beside = os.path.join(HERE, name)
    if os.path.isdir(beside):
        shutil.copytree(beside, source, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        os.makedirs(source)
    for folder in ("home", "tmp", "ckpt"):
        os.makedirs(os.path.join(work, folder))
    shutil.copy2(os.path.join(HERE, name + ".py"), source)
    env = dict(cluster.env, HOME=os.path.join(work, "home"), PYTHON=python, WORK=work)
    for command in spec["setup"]:
        p = subprocess.run(command, shell=True, cwd=source, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if p.returncode != 0:
            raise Broken("setup: " + p.stdout[-500:])
    command = shlex.split((spec["command"] or "{python} %s.py" % name).replace("{python}", python))
    args = ["run", "--detach", "--name", name, "--min", str(options.sizes[0]), "--max", str(options.sizes[0]),
            "--checkpoint-dir", os.path.join(work, "ckpt"), "--progress", r"step (\d+)", "--halt-timeout", "30s",
            "--env", "TMPDIR=" + os.path.join(work, "tmp"), *spec["run"]]
    for setting in spec["env"]:
        args += ["--env", setting.replace("{work}", work)]
    if cold:
        args.append("--cold-start")
    run = Run()
    job = cluster.call(*args, "--", *command, env=env, cwd=source).split(":")[0].strip()
    try:
        after = 0
        for i, size in enumerate(options.sizes):
            if i:
                cluster.call("scale", job, "--min", str(size), "--max", str(size))
            after = await_steps(cluster, job, size, after, options.timeout, run)
            if not cold and i + 1 < len(options.sizes):
                await_prepared(cluster, job, options.timeout)
            time.sleep(0.3)
            gather(cluster, job, run)
    except (Broken, subprocess.TimeoutExpired) as e:
        run.broken = str(e)
    finally:
        cluster.call("stop", job, "--wait", check=False)
        try:
            collect(cluster, job, run)
        except (Broken, ValueError) as e:
            run.wrong.append("no logs: %s" % e)
    return run


def await_steps(cluster, job, size, after, timeout, run):
    """Waits until all ranks of a generation of this size have taken a step, and notes how they were started."""
    end = time.time() + timeout
    while True:
        state = cluster.show(job)
        gen = state["generation"]
        if state["ended"]:
            tail = (state.get("failure") or {}).get("log_tail")
            raise Broken("it has ended (%s: %s) %s" % (state["phase"], state.get("reason"), tail))
        if gen > after and state["phase"] == "running" and state["workers"] == size:
            stepped = {x["rank"] for x in cluster.lines(job, "--generation", str(gen)) if re.match(r"step \d+$", x["text"])}
            if len(stepped) == size:
                for m in state["members"]:
                    how = "warm" if m.get("warm") else m.get("cold") or "nothing was prepared"
                    run.members.append((gen, m["node"], how, m.get("parked")))
                return gen
        if time.time() > end:
            raise Broken("no step of %d workers within %d s: %s, generation %d, %s" % (size, timeout, state["phase"], gen, state.get("reason")))
        time.sleep(0.2)


def await_prepared(cluster, job, timeout):
    """Waits until the next generation is prepared wherever it is asked for, as far as it ever will be."""
    begin = time.time()
    while time.time() < begin + timeout:
        state = cluster.show(job)
        following = state.get("next") or []
        if state.get("unforkable") or not following and time.time() > begin + 5:
            return
        if following and all(n["ready"] or n.get("cold") for n in following):
            time.sleep(0.7)  # so that what was read ahead of time is clearly older than the START
            return
        time.sleep(0.2)


def pattern(run, name):
    """Which draws of a name are equal: the same letter for the same value."""
    letters, shown = {}, []
    for (gen, rank), said in sorted(run.said.items()):
        for kind, n, value in said:
            if kind == "DRAW" and n == name:
                shown.append("%d/%d:%s" % (gen, rank, letters.setdefault(value, "abcdefghijklmnopqrstuvwxyz"[len(letters) % 26])))
    return " ".join(shown)


def compare(cold, other, label):
    """Lists the differences of a run to a cold one as (name, text), and counts what was compared."""
    found, counts = [], dict.fromkeys(("FACT", "DRAW", "TIME", "LATE"), 0)
    for run, which in ((cold, "cold"), (other, label)):
        found += [("(lines)", which + ": " + w) for w in run.wrong]
        for gen, size in run.worlds.items():
            for rank in range(size):
                if not run.said.get((gen, rank)):
                    found.append(("(facts)", "%s: rank %d of generation %d says nothing" % (which, rank, gen)))
    if cold.worlds != other.worlds:
        found.append(("(worlds)", "by generation: cold %s, %s %s" % (cold.worlds, label, other.worlds)))
    for name, value in cold.job.items():
        if other.job.get(name) != value:
            found.append((name, "cold %s, %s %s" % (value, label, other.job.get(name))))
    if "(failure)" in other.job and "(failure)" not in cold.job:
        found.append(("(failure)", "cold none, %s %s" % (label, other.job["(failure)"])))

    # What has to be equal: facts in all worlds of a size, late ones in each generation.
    def values(run):
        by = {}
        for (gen, rank), said in run.said.items():
            for kind, name, value in said + [("LATE", "(output)", json.dumps(run.output[gen, rank], ensure_ascii=False))]:
                if kind == "FACT":
                    by.setdefault((kind, name, run.worlds.get(gen), rank), {})[gen] = value
                elif kind == "LATE":
                    by.setdefault((kind, name, gen, rank), {})[gen] = value
        return by

    first, second = values(cold), values(other)
    for key in sorted(set(first) | set(second), key=str):
        kind, name, at, rank = key
        where = "rank %d of %s" % (rank, at) if kind == "FACT" else "rank %d" % rank
        a, b = first.get(key, {}), second.get(key, {})
        if name != "(output)":
            counts[kind] += len(b)
        if len(set(a.values())) > 1:
            found.append((name, "%s: cold starts differ: %s" % (where, brief(a))))
            continue
        expected = next(iter(a.values()), "nothing")
        for gen in sorted(set(a) | set(b)):
            got = b.get(gen, "nothing")
            if got != expected and (gen in other.worlds or not b):
                found.append((name, "generation %d, %s: cold %s, %s %s" % ((gen, where) + excerpt(expected, got, label))))
    draws = {n for run in (cold, other) for said in run.said.values() for k, n, _ in said if k == "DRAW"}
    for name in sorted(draws):
        a, b = pattern(cold, name), pattern(other, name)
        counts["DRAW"] += len(b.split())
        if a != b:
            found.append((name, "which generation/rank draws the same: cold %s; %s %s" % (a, label, b)))
    for run, which in ((cold, "cold"), (other, label)):
        for (gen, rank), said in sorted(run.said.items()):
            for kind, name, value in said:
                if kind == "TIME" and run is other:
                    counts["TIME"] += 1
                if kind == "TIME" and float(value) < run.starts.get(gen, 0) - SLACK:
                    early = run.starts[gen] - float(value)
                    found.append((name, "%s: generation %d, rank %d: %.2f s before its START" % (which, gen, rank, early)))
    names = [sorted({(k, n) for k, n, _ in said}) for run in (cold, other) for said in run.said.values()]
    missing = {(k, n) for some in names for k, n in some} - set.intersection(*[set(s) for s in names]) if names else set()
    for kind, name in sorted(missing):
        if kind == "TIME":
            where = [key for key, said in sorted(other.said.items()) if (kind, name) not in {(k, n) for k, n, _ in said}]
            if where:
                found.append((name, "%s: is missing in generation/rank %s" % (label, where)))
    return found, counts


# What is decided to differ, and why: docs/environment.md, "What differs".
DECIDED = {
    ("clocks", "process-start"): "the process began before its generation",
    ("clocks", "file-of-run"): "as old as the process",
    ("psutil_parent", "created"): "the process began before its generation",
    ("psutil_parent", "created-at-import"): "the process began before its generation",
    ("end_exit_status", "(restarts)"): "a failure before the first step of a warm start is not charged",
}


def excerpt(a, b, label):
    """Shortens two long values to where they differ."""
    if len(a) + len(b) > 240:
        i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        i = max(0, i - 30)
        a, b = ("…" if i else "") + a[i:i + 120], ("…" if i else "") + b[i:i + 120]
    return a, label, b


def brief(values):
    return "; ".join("generation %s: %.100s" % item for item in sorted(values.items()))


def probe(cluster, name, options):
    """Runs a probe both ways and returns its row of the table."""
    spec = directives(os.path.join(HERE, name + ".py"))
    row = {"probe": name, "differences": [], "counts": {}, "warm": 0, "cold": {}, "parked": {}, "skipped": None}
    python = options.python
    if spec["needs"] and not has(python, spec["needs"]):
        python = FRAMEWORKS
        if not has(python, spec["needs"]):
            row["skipped"] = "needs " + ", ".join(spec["needs"])
            return row
    label = "again" if options.only_cold else "warm"
    begin = time.time()
    try:
        cold = perform(cluster, name, spec, python, True, options)
    except (Broken, subprocess.TimeoutExpired) as e:
        row["differences"].append(("(cold run)", str(e)))
        return row
    if cold.broken:
        row["differences"].append(("(cold run)", cold.broken))
        return row
    other = perform(cluster, name, spec, python, options.only_cold, options)
    row["differences"], row["counts"] = compare(cold, other, label)
    if other.broken:
        row["differences"].insert(0, ("(%s run)" % label, other.broken))
    for gen, node, how, parked in other.members:
        if gen == 1 or options.only_cold:
            continue
        if how == "warm":
            row["warm"] += 1
        else:
            row["cold"][how] = row["cold"].get(how, 0) + 1
        if parked:
            row["parked"][parked] = row["parked"].get(parked, 0) + 1
    if not sum(row["counts"].values()):
        row["differences"].append(("(facts)", "nothing was compared"))
    row["seconds"] = round(time.time() - begin, 1)
    return row


def undecided(row):
    return [(n, text) for n, text in row["differences"] if (row["probe"], n) not in DECIDED]


def table(rows, only_cold):
    """Prints what was found, a line for each probe, then the differences."""
    width = max([len(r["probe"]) for r in rows] + [5])
    print("\n%-*s  %-24s %5s  %s" % (width, "probe", "compared", "diff.", "" if only_cold else "starts"))
    for r in rows:
        kinds = " ".join("%d %s" % (n, k) for k, n in r["counts"].items() if n) or "-"
        starts = "" if only_cold else "%d warm" % r["warm"]
        starts += "".join(", %d cold: %s" % (n, why) for why, n in r["cold"].items())
        starts += "".join("; parked %s" % where for where in r["parked"])
        if r["skipped"]:
            starts = "skipped: " + r["skipped"]
        different = len({n for n, _ in undecided(r)})
        decided = sorted({n for n, _ in r["differences"]} - {n for n, _ in undecided(r)})
        starts += "".join("; differs as decided: %s, %s" % (n, DECIDED[r["probe"], n]) for n in decided)
        print("%-*s  %-24s %5s  %s" % (width, r["probe"], kinds, different or "·", starts))
    for r in rows:
        by = {}
        for name, text in undecided(r):
            by.setdefault(name, []).append(text)
        for name, texts in by.items():
            more = " (and %d more)" % (len(texts) - 1) if len(texts) > 1 else ""
            print("\n%s: %s: %s%s" % (r["probe"], name, texts[0], more), end="")
    bad = [r["probe"] for r in rows if undecided(r)]
    print("\n\n%d probes, %d with differences, %d skipped" % (len(rows), len(bad), sum(bool(r["skipped"]) for r in rows)), end="")
    if not only_cold:
        started = [r for r in rows if not r["skipped"]]
        print("; %d of %d nodes' starts were warm, %d probes started warm everywhere" % (
            sum(r["warm"] for r in started), sum(r["warm"] + sum(r["cold"].values()) for r in started),
            sum(bool(r["warm"]) and not r["cold"] for r in started)), end="")
    print()
    return 1 if bad else 0


def main():
    everything = sorted(f[:-3] for f in os.listdir(HERE) if f.endswith(".py") and f != "run.py")
    parser = argparse.ArgumentParser(description="Compare cold and warm starts by probes.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="probes (default: all %d)" % len(everything))
    parser.add_argument("--python", default="/usr/bin/python3", help="interpreter of the probes (default %(default)s)")
    parser.add_argument("--bellows", default=os.path.join(HERE, "..", "..", "bin", "bellows"), help="the program to test")
    parser.add_argument("--only-cold", action="store_true", help="compare cold starts with cold starts")
    parser.add_argument("--sizes", default="2,4,2", help="world sizes, one after the other (default %(default)s)")
    parser.add_argument("--clusters", type=int, default=2, help="how many probes run at once, each on a cluster of its own")
    parser.add_argument("--timeout", type=float, default=90, help="seconds that a generation may take to come up, or to be prepared")
    parser.add_argument("--keep", action="store_true", help="leave the clusters' data, logs and the probes' folders")
    parser.add_argument("--json", metavar="FILE", help="write the rows there besides")
    parser.add_argument("--list", action="store_true", help="list the probes")
    options = parser.parse_args()
    if options.list:
        for name in everything:
            with open(os.path.join(HERE, name + ".py")) as f:
                m = re.search(r'"""(.*?)[\n"]', f.read())
            print("%-22s %s" % (name, m.group(1) if m else ""))
        return 0
    unknown = set(options.names) - set(everything)
    if unknown:
        parser.error("no such probe: " + ", ".join(sorted(unknown)))
    options.sizes = [int(s) for s in options.sizes.split(",")]
    if set(options.sizes) - {1, 2, 4}:
        parser.error("sizes are 1, 2 or 4")
    options.bellows = os.path.abspath(options.bellows)
    options.root = tempfile.mkdtemp(prefix="probes-")
    names = options.names or everything
    work, rows, lock = queue.Queue(), [], threading.Lock()
    for name in names:
        work.put(name)

    def end(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)

    def serve(number):
        clusters = 0
        cluster = Cluster(options.bellows, os.path.join(options.root, "c%d" % number))
        try:
            while True:
                try:
                    name = work.get_nowait()
                except queue.Empty:
                    return
                for attempt in (1, 2):
                    try:
                        row = probe(cluster, name, options)
                    except Exception as e:  # a broken probe stops no other one
                        row = {"probe": name, "differences": [("(harness)", repr(e))], "counts": {}, "warm": 0, "cold": {}, "parked": {}, "skipped": None}
                    wanted = {"(worlds)", "(cold run)"} & {n for n, _ in row["differences"]}
                    if cluster.dev.poll() is None and ("(restarts)" in {n for n, _ in row["differences"]} or not wanted):
                        break
                    if cluster.dev.poll() is None:  # a busy machine: a node fell silent, or the job was moved for another reason
                        continue
                    with open(cluster.log.name) as f:
                        print("the cluster has ended with status %d, on probe %s: %s" % (cluster.dev.returncode, name, f.read()[-1000:]), file=sys.stderr)
                    clusters += 1
                    cluster = Cluster(options.bellows, os.path.join(options.root, "c%d.%d" % (number, clusters)))
                with lock:
                    rows.append(row)
                    print("%s %3d/%d %-24s %s" % (time.strftime("%H:%M:%S"), len(rows), len(names), name, row["skipped"] and "skipped" or
                          "%d differences" % len({n for n, _ in undecided(row)})), file=sys.stderr, flush=True)
        finally:
            cluster.close()

    threads = [threading.Thread(target=serve, args=(i,)) for i in range(max(1, min(options.clusters, len(names))))]
    for t in threads:
        t.start()
    try:
        for t in threads:
            t.join()
    except KeyboardInterrupt:  # the probes under way come to their end, then the clusters are ended
        print("ending", file=sys.stderr)
        while not work.empty():
            work.get_nowait()
        for t in threads:
            t.join()
    rows.sort(key=lambda r: names.index(r["probe"]))
    if options.json:
        with open(options.json, "w") as f:
            json.dump(rows, f, indent=1, ensure_ascii=False)
    status = table(rows, options.only_cold) if rows else 1
    if len(rows) < len(names):
        print("%d probes were not run" % (len(names) - len(rows)))
        status = 1
    if options.keep:
        print("kept: " + options.root)
    else:
        shutil.rmtree(options.root, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())

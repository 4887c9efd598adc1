#!/usr/bin/env python3
"""Spark baseline.  One process = one JVM = one configuration: warm-up run(s) discarded, then --repeat timed runs.
 spark.py clicks --input data/low2m/json --format json --store hdfs|rocksdb --parts 2 --files-per-trigger 2 --repeat 3 [--warm DIR]
 spark.py dedup  --input data/dedup/parquet --store hdfs --delay "2 hours"
 spark.py join   --input data/join
 spark.py stateless --input data/flat4m/csv --format csv
 spark.py tiny   --input data/tiny/json --format json --batches 200 --skip 50 --sink noop|memory
 spark.py startup --input data/tiny/json            (fresh interpreter+JVM each time: start -> commits/0 exists)
Appends one JSON line per timed run to --results."""
import argparse, json, os, shutil, subprocess, sys, time, statistics, threading
from pathlib import Path
T_START = time.time()
ROOT = Path(__file__).resolve().parent
os.environ.setdefault("PYSPARK_PYTHON", sys.executable); os.environ["TZ"] = "UTC"
ap = argparse.ArgumentParser()
ap.add_argument("job", choices=["clicks", "dedup", "join", "stateless", "tiny", "startup", "child_startup"]); ap.add_argument("--input", required=True); ap.add_argument("--format", default="parquet")
ap.add_argument("--store", default="hdfs"); ap.add_argument("--changelog", action="store_true"); ap.add_argument("--parts", default="2"); ap.add_argument("--files-per-trigger", default="2"); ap.add_argument("--repeat", type=int, default=3)
ap.add_argument("--warm", default=""); ap.add_argument("--warm-runs", type=int, default=1); ap.add_argument("--mem", default="8g"); ap.add_argument("--delay", default="10 minutes"); ap.add_argument("--rows", type=int, default=0)
ap.add_argument("--batches", type=int, default=200); ap.add_argument("--skip", type=int, default=50); ap.add_argument("--sink", default="noop"); ap.add_argument("--label", default=""); ap.add_argument("--results", default=str(ROOT / "bench_results.jsonl"))
ap.add_argument("--mode", default="append"); ap.add_argument("--master", default="local[2]")
a = ap.parse_args()
W = ROOT / "work" / f"bench_{os.getpid()}"; W.mkdir(parents=True, exist_ok=True)
load = lambda: os.getloadavg()

def session():
    from pyspark.sql import SparkSession
    b = (SparkSession.builder.master(a.master).appName("bench").config("spark.driver.memory", a.mem)
        .config("spark.sql.session.timeZone", "UTC").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", a.parts).config("spark.sql.streaming.numRecentProgressUpdates", "2000")
        .config("spark.local.dir", str(W / "local")))
    if a.store == "rocksdb":
        b = b.config("spark.sql.streaming.stateStore.providerClass", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
        if a.changelog: b = b.config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    s = b.getOrCreate(); s.sparkContext.setLogLevel("ERROR"); return s

def jvm_pid():
    import psutil
    for c in psutil.Process().children(recursive=True):
        if "java" in c.name(): return c.pid
def vm(pid, key="VmHWM"):
    try:
        for l in open(f"/proc/{pid}/status"):
            if l.startswith(key): return int(l.split()[1]) // 1024
    except OSError: return None

def cpu_snapshot(pid):
    """(JVM cpu s, whole machine busy cpu s): others = machine - jvm - self; makes contention visible"""
    import psutil
    c = psutil.Process(pid).cpu_times(); m = psutil.cpu_times(); me = time.process_time()
    return c.user + c.system, m.user + m.nice + m.system + m.irq + m.softirq + m.steal, me
def cpu_diff(pid, a0):
    b0 = cpu_snapshot(pid); j = b0[0] - a0[0]
    return {"jvm_cpu_s": round(j, 2), "others_cpu_s": round(max(0.0, b0[1] - a0[1] - j - (b0[2] - a0[2])), 2)}

def source(s, d, ddl, fmt=None):
    r = s.readStream.schema(ddl)
    if int(a.files_per_trigger) > 0: r = r.option("maxFilesPerTrigger", a.files_per_trigger)
    return r.format(fmt or a.format).load(d)
CL = "user_id string, page string, event_time timestamp, duration_s double"
def q_clicks(s, inp):
    from pyspark.sql import functions as F
    return (source(s, inp, CL).withWatermark("event_time", a.delay).groupBy(F.window("event_time", "5 minutes"), "page").agg(F.count("*").alias("views"), F.sum("duration_s").alias("total_duration_s")))
def q_dedup(s, inp): return source(s, inp, "id string, event_time timestamp, v long").withWatermark("event_time", a.delay).dropDuplicatesWithinWatermark(["id"])
def q_join(s, inp):
    from pyspark.sql import functions as F
    i = source(s, inp + "/imp/" + a.format, "imp_id string, imp_time timestamp, cost double").withWatermark("imp_time", "10 minutes")
    c = source(s, inp + "/clk/" + a.format, "clk_id string, clk_time timestamp, val long").withWatermark("clk_time", "10 minutes")
    return i.join(c, F.expr("imp_id = clk_id AND clk_time >= imp_time AND clk_time <= imp_time + interval 10 minutes"))

def q_stateless(s, inp): return source(s, inp, CL).where("duration_s >= 15").selectExpr("user_id", "page", "event_time", "duration_s * 2 as doubled")

def prog(q): return [json.loads(p.json) if hasattr(p, "json") else dict(p) for p in q.recentProgress]
def once(s, build, inp, jp=None, c0=None, check=False):
    d = W / "run"; shutil.rmtree(d, ignore_errors=True)
    df = build(s, inp); t0 = time.time()
    w = df.writeStream.outputMode(a.mode).option("checkpointLocation", str(d / "chk")).trigger(availableNow=True)
    q = w.format("parquet").start(str(d / "out")) if a.sink == "noop" and a.job != "tiny" else w.format(a.sink).start()
    q.awaitTermination(); wall = time.time() - t0
    cd = cpu_diff(jp, c0) if jp else {}
    if q.exception(): raise RuntimeError(str(q.exception())[:500])
    ps = [p for p in prog(q)]
    r = {"wall_s": round(wall, 3), **cd, "batches": len(ps), "in_rows": sum(p["numInputRows"] for p in ps), "trigger_ms_sum": sum(p["durationMs"]["triggerExecution"] for p in ps),
         "addBatch_ms": sum(p["durationMs"].get("addBatch", 0) for p in ps), "walCommit_ms": sum(p["durationMs"].get("walCommit", 0) + p["durationMs"].get("commitOffsets", 0) for p in ps)}
    so = [p["stateOperators"][0] for p in ps if p["stateOperators"]]
    if so: r.update(state_rows_max=max(x["numRowsTotal"] for x in so), state_rows_end=so[-1]["numRowsTotal"], state_mem_max=max(x["memoryUsedBytes"] for x in so), commit_ms=sum(x["commitTimeMs"] for x in so), update_ms=sum(x["allUpdatesTimeMs"] for x in so), dropped=sum(x["numRowsDroppedByWatermark"] for x in so))
    r["batch_ms"] = [p["durationMs"]["triggerExecution"] for p in ps]
    r["chk_mb"] = round(sum(f.stat().st_size for f in (d / "chk").rglob("*") if f.is_file()) / 1e6, 1)
    if check and (d / "out").exists():
        o = s.read.parquet(str(d / "out")); num = {"clicks": "views", "dedup": "v", "join": "val", "stateless": "length(user_id)"}[a.job]
        x = o.selectExpr("count(*) n", f"sum({num}) s").collect()[0]; r["out_rows"], r["out_sum"] = x.n, x.s
    return r
def emit(r):
    r = {"job": a.job, "label": a.label or a.input.replace(str(ROOT) + "/", ""), "format": a.format, "store": a.store + ("+changelog" if a.changelog else ""), "parts": a.parts, "fpt": a.files_per_trigger, "mem": a.mem, "delay": a.delay, **r}
    open(a.results, "a").write(json.dumps(r) + "\n")
    print({k: v for k, v in r.items() if k != "batch_ms"}, flush=True)

if a.job == "child_startup":
    s = session(); d = W / "run"
    t_sess = time.time() - T_START
    q = (q_clicks(s, a.input).writeStream.outputMode("append").format("parquet").option("checkpointLocation", str(d / "chk")).start(str(d / "out")))
    while not (d / "chk" / "commits" / "0").exists(): time.sleep(0.002)
    t = time.time(); print(json.dumps({"t_commit": t, "session_s": round(t_sess, 3), "jvm_rss_mb": vm(jvm_pid(), "VmRSS"), "jvm_hwm_mb": vm(jvm_pid())}), flush=True); q.stop(); s.stop()
elif a.job == "startup":
    for i in range(a.repeat):
        l0 = load(); t0 = time.time()
        o = subprocess.run([sys.executable, __file__, "child_startup", "--input", a.input, "--format", a.format, "--files-per-trigger", "1", "--store", a.store, "--mem", a.mem], capture_output=True, text=True)
        x = json.loads([l for l in o.stdout.splitlines() if l.startswith("{")][-1])
        emit({"run": i, "start_to_first_commit_s": round(x["t_commit"] - t0, 3), "session_ready_s": x["session_s"], "jvm_rss_mb": x["jvm_rss_mb"], "jvm_hwm_mb": x["jvm_hwm_mb"], "load1": l0[0]})
elif a.job == "tiny":
    from pyspark.sql import functions as F
    s = session(); jp = jvm_pid()
    for i in range(a.repeat):
        d = W / f"tiny{i}"; l0 = load()
        df = q_clicks(s, a.input)
        w = df.writeStream.outputMode("update").option("checkpointLocation", str(d / "chk")).format(a.sink).trigger(availableNow=True)
        if a.sink == "memory": w = w.queryName(f"tiny{i}")
        c0 = cpu_snapshot(jp); t0 = time.time(); q = w.start(); q.awaitTermination(); wall = time.time() - t0; cd = cpu_diff(jp, c0)
        ps = [p for p in prog(q) if p["numInputRows"] > 0]
        x = sorted(p["durationMs"]["triggerExecution"] for p in ps[a.skip:a.skip + a.batches]); n = len(x)
        parts = {k: statistics.median(p["durationMs"].get(k, 0) for p in ps[a.skip:a.skip + a.batches]) for k in ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "commitBatch", "getBatch")}
        emit({"run": i, "sink": a.sink, "n": n, "median_ms": statistics.median(x), "p90_ms": x[int(n * .9)], "p99_ms": x[min(n - 1, int(n * .99))], "max_ms": x[-1], "mean_ms": round(statistics.mean(x), 1), "wall_s": round(wall, 2), **cd, "batches_total": len(ps), "parts_median": parts, "load1": l0[0], "jvm_hwm_mb": vm(jp)})
else:
    s = session(); jp = jvm_pid(); build = {"clicks": q_clicks, "dedup": q_dedup, "join": q_join, "stateless": q_stateless}[a.job]
    for i in range(a.warm_runs):
        r = once(s, build, a.warm or a.input); print("warmup", r["wall_s"], flush=True)
    for i in range(a.repeat):
        l0 = load(); c0 = cpu_snapshot(jp); r = once(s, build, a.input, jp, c0, check=(i == a.repeat - 1)); l1 = load()
        emit({"run": i, "rows_per_s": round(r["in_rows"] / r["wall_s"]), "rows_per_jvm_cpu_s": round(r["in_rows"] / r["jvm_cpu_s"]), **r, "load1_before": round(l0[0], 2), "load1_after": round(l1[0], 2), "jvm_hwm_mb": vm(jp), "py_rss_mb": vm(os.getpid())})
    s.stop()
shutil.rmtree(W, ignore_errors=True)

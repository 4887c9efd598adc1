#!/usr/bin/env python3
"""Seeded data generator (numpy PCG64 -> same bytes for the same arguments).
 generate.py clicks --rows 2000000 --keys 1000 --files 20 --hours 4 --format json,parquet --out DIR [--seed 7] [--skew]
 generate.py dedup  --distinct 5000000 --dups 1000000 --files 10 --out DIR
 generate.py join   --rows 2000000 --files 10 --out DIR        (DIR/imp, DIR/clk)
 generate.py tiny   --files 260 --rows-per-file 100 --out DIR
Files are part-00000.<ext> .. with increasing mtime (Spark's file source orders by mtime)."""
import argparse, os, shutil, time
from pathlib import Path
import numpy as np, polars as pl
T0 = 1767225600000  # 2026-01-01T00:00:00Z in ms

def write(df, d, i, fmts):
    for f in fmts:
        p = Path(d) / f; p.mkdir(parents=True, exist_ok=True); fn = p / f"part-{i:05d}.{f}"
        if f == "json":
            cols = [pl.col(c).dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ") if df.schema[c].is_temporal() else pl.col(c) for c in df.columns]
            df.select(cols).write_ndjson(fn)
        elif f == "csv":
            cols = [pl.col(c).dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ") if df.schema[c].is_temporal() else pl.col(c) for c in df.columns]
            df.select(cols).write_csv(fn, include_header=False)
        else:
            df.write_parquet(fn, compression="snappy", use_pyarrow=True) if False else df.write_parquet(fn, compression="snappy")
        m = 1_700_000_000 + i; os.utime(fn, (m, m))

def ts(ms): return pl.Series(ms).cast(pl.Datetime("us", "UTC")) if False else (pl.Series(ms * 1000).cast(pl.Datetime("us", "UTC")))

def clicks(a, fmts):
    r = np.random.default_rng(a.seed); per = a.rows // a.files; span = int(a.hours * 3600_000)
    for i in range(a.files):
        n = per; lo = i * span // a.files; hi = (i + 1) * span // a.files
        t = r.integers(lo, hi, n) - r.integers(0, 300_000, n) * (r.random(n) < 0.3)   # 30 % late by up to 5 min
        t = np.maximum(t, 0); t[0] = hi - 1                                        # pins the max event time of each file
        u = r.random(n); k = (a.keys * (u ** 3 if a.skew else u)).astype(np.int64)
        w = len(str(a.keys - 1))
        df = pl.DataFrame({"u": r.integers(0, 100_000, n), "k": k, "event_time": ts(T0 + t), "duration_s": np.round(r.random(n) * 60, 2)})
        df = df.select(pl.format("u{}", pl.col("u")).alias("user_id"), (pl.lit("/page/") + pl.col("k").cast(pl.String).str.zfill(w)).alias("page"), "event_time", "duration_s")
        write(df, a.out, i, fmts)

def dedup(a, fmts):
    r = np.random.default_rng(a.seed); n = a.distinct; span = int(a.hours * 3600_000)
    ids = r.permutation(n); t = np.sort(r.integers(0, span, n)); per = n // a.files; dper = a.dups // a.files
    for i in range(a.files):
        s = slice(i * per, (i + 1) * per); I, Tm = ids[s], t[s]
        j = r.integers(max(0, (i + 1) * per - per - per // 2) if i else 0, (i + 1) * per, dper)   # duplicates of this or the previous half file
        I2, T2 = ids[j], np.minimum(t[j] + r.integers(0, 60_000, dper), span)
        I, Tm = np.concatenate([I, I2]), np.concatenate([Tm, T2]); p = r.permutation(len(I))
        df = pl.DataFrame({"i": I[p], "event_time": ts(T0 + Tm[p]), "v": r.integers(0, 1000, len(I))})
        write(df.select(pl.format("id-{}", pl.col("i").cast(pl.String).str.zfill(8)).alias("id"), "event_time", "v"), a.out, i, fmts)

def join(a, fmts):
    r = np.random.default_rng(a.seed); n = a.rows; span = int(a.hours * 3600_000); t = np.sort(r.integers(0, span, n)); per = n // a.files
    hit = r.random(n) < 0.8
    ck = np.where(hit, np.arange(n), n + np.arange(n)); ct = t + np.where(r.random(n) < 0.9, r.integers(0, 300_000, n), r.integers(600_001, 900_000, n))
    o = np.argsort(ct, kind="stable"); ck, ct = ck[o], ct[o]
    for i in range(a.files):
        s = slice(i * per, (i + 1) * per)
        df = pl.DataFrame({"i": np.arange(n)[s], "imp_time": ts(T0 + t[s]), "cost": np.round(r.random(per), 3)})
        write(df.select(pl.format("ad-{}", pl.col("i").cast(pl.String).str.zfill(8)).alias("imp_id"), "imp_time", "cost"), a.out + "/imp", i, fmts)
        df = pl.DataFrame({"i": ck[s], "clk_time": ts(T0 + ct[s]), "val": r.integers(0, 100, per)})
        write(df.select(pl.format("ad-{}", pl.col("i").cast(pl.String).str.zfill(8)).alias("clk_id"), "clk_time", "val"), a.out + "/clk", i, fmts)

def tiny(a, fmts):
    r = np.random.default_rng(a.seed)
    for i in range(a.files):
        n = a.rows_per_file; t = i * 10_000 + r.integers(0, 10_000, n)
        df = pl.DataFrame({"u": r.integers(0, 1000, n), "k": r.integers(0, 100, n), "event_time": ts(T0 + t), "duration_s": np.round(r.random(n) * 60, 2)})
        write(df.select(pl.format("u{}", pl.col("u")).alias("user_id"), pl.format("/page/{}", pl.col("k")).alias("page"), "event_time", "duration_s"), a.out, i, fmts)

if __name__ == "__main__":
    p = argparse.ArgumentParser(); p.add_argument("what", choices=["clicks", "dedup", "join", "tiny"]); p.add_argument("--rows", type=int, default=2_000_000)
    p.add_argument("--keys", type=int, default=1000); p.add_argument("--files", type=int, default=20); p.add_argument("--hours", type=float, default=4); p.add_argument("--format", default="parquet")
    p.add_argument("--out", required=True); p.add_argument("--seed", type=int, default=7); p.add_argument("--skew", action="store_true")
    p.add_argument("--distinct", type=int, default=5_000_000); p.add_argument("--dups", type=int, default=1_000_000); p.add_argument("--rows-per-file", type=int, default=100)
    a = p.parse_args(); t = time.time(); shutil.rmtree(a.out, ignore_errors=True); globals()[a.what](a, a.format.split(","))
    print(a.what, a.out, f"{time.time()-t:.1f}s", sum(f.stat().st_size for f in Path(a.out).rglob("part-*")) / 1e6, "MB")

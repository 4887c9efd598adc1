//! State backends beside other stores: one caller, keys of 18 and values of 64 bytes, commits to a
//! local disk that is synced. Each contestant runs in a process of its own, one after the other;
//! rates count the CPU time of all its threads, because machines are shared.
//!
//! ```text
//! cargo bench --manifest-path benches/state/Cargo.toml
//! ROCKSDB_LIB_DIR=/usr/lib/x86_64-linux-gnu ROCKSDB_INCLUDE_DIR=/usr/include \
//!     cargo bench --manifest-path benches/state/Cargo.toml --features rocksdb,fjall -- \
//!     --keys 1000000 --memory 512 --commits 200 --others 20 --only lsm,rocksdb
//! cargo bench --manifest-path benches/state/Cargo.toml -- --recovery --keys 10000000
//! cargo bench --manifest-path benches/state/Cargo.toml -- --tiny --keys 10000000 --memory 64
//! ```

use fluvial_state_benches::{Figure, Keys, Rounds, contestants, measure, recovery, tiny};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Numbers and names after `--`.
struct Options(Vec<String>);

impl Options {
    fn text(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|word| word == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.text(name).map_or(default, |text| text.parse().expect("a number"))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|word| word == name)
    }
}

fn main() {
    let options = Options(std::env::args().skip(1).collect());
    let keys = Keys(options.number("--keys", 1_000_000));
    let memory = options.number("--memory", 512) << 20;
    if options.has("--recovery") {
        print(&recovery(keys, memory));
    } else if options.has("--tiny") {
        print(&tiny(keys, memory));
    } else if let Some(name) = options.text("--child") {
        let rounds = Rounds {
            commits: options.number("--commits", 200),
            others: options.number("--others", 20),
        };
        let known = contestants().into_iter().find(|(known, _)| *known == name);
        let (_, make) = known.expect("a contestant of this build");
        print(&measure(make, keys, memory, rounds));
    } else {
        table(&options);
    }
}

fn print(figures: &[Figure]) {
    for Figure { what, unit, value } in figures {
        println!("{what}\t{unit}\t{value}");
    }
}

/// Runs every contestant, and prints a table of what they said.
fn table(options: &Options) {
    let only = options.text("--only").map(|names| names.split(',').collect::<Vec<_>>());
    let names: Vec<&str> = contestants().into_iter().map(|(name, _)| name).collect();
    let names: Vec<&str> =
        names.into_iter().filter(|n| only.as_ref().is_none_or(|only| only.contains(n))).collect();
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut values: BTreeMap<(String, &str), f64> = BTreeMap::new();
    for name in &names {
        eprintln!("{name}");
        for line in child(name, &options.0).lines() {
            let mut parts = line.split('\t');
            let mut part = || parts.next().expect("three parts").to_owned();
            let (what, unit, value) = (part(), part(), part());
            if !rows.iter().any(|(known, _)| *known == what) {
                rows.push((what.clone(), unit));
            }
            values.insert((what, name), value.parse().expect("a number"));
        }
    }
    println!("| figure | unit | {} | lsm beside rocksdb |", names.join(" | "));
    println!("|---|---|{}---:|", "---:|".repeat(names.len()));
    for (what, unit) in rows {
        let of = |name: &str| values.get(&(what.clone(), name)).copied();
        let cells = names.iter().map(|name| of(name).map_or(String::new(), |v| format!("{v:.1}")));
        let ratio = of("lsm").zip(of("rocksdb")).map(|(lsm, rocks)| match unit.contains("per") {
            true => format!("{:.1}x", lsm / rocks),
            false => format!("{:.1}x", rocks / lsm),
        });
        let cells: Vec<String> = cells.collect();
        println!("| {what} | {unit} | {} | {} |", cells.join(" | "), ratio.unwrap_or_default());
    }
}

fn child(name: &str, options: &[String]) -> String {
    let program = std::env::current_exe().expect("this program");
    let child = Command::new(program)
        .args(["--child", name])
        .args(options)
        .stderr(Stdio::inherit())
        .output()
        .expect("it runs");
    assert!(child.status.success(), "{name} failed");
    String::from_utf8(child.stdout).expect("text")
}

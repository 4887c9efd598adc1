//! A broker of Apache Kafka for tests: one node on loopback, its jars by Maven.

use crate::{cargo_with, root};
use anyhow::{Context, Result, bail};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The version of `xtask/kafka/pom.xml`: the folder of the jars has its name.
const VERSION: &str = "4.1.1";
const START_MAX: Duration = Duration::from_secs(90);

/// The variable that tells the tests where the broker is.
const VARIABLE: &str = "FLUVIAL_KAFKA";
/// The variable that tells them where its jars are: some tests have a broker of their own, to kill.
const JARS: &str = "FLUVIAL_KAFKA_JARS";

/// What `cargo xtask kafka WORD` runs.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments {
        [word] if word == "up" => up(),
        [word] if word == "down" => down(),
        [word, rest @ ..] if word == "test" => test(rest),
        _ => bail!("which? There are: up, down, test"),
    }
}

/// Everything that has Kafka in it, on a broker if one can be had: lints, tests, the feature of the
/// facade. Not part of the workspace's own steps, because it builds a library in C.
pub(crate) fn check() -> Result<()> {
    let crates = ["--package", "fluvial-kafka"];
    let lints = ["clippy", crates[0], crates[1], "--all-targets", "--", "--deny", "warnings"];
    cargo_with(&[], &lints)?;
    let documentation = ["doc", crates[0], crates[1], "--no-deps"];
    cargo_with(&[("RUSTDOCFLAGS", "--deny warnings")], &documentation)?;
    test(&[])
}

/// The program with Kafka in it, between topics.
fn program(variables: &[(&str, &str)]) -> Result<()> {
    let package = ["test", "--package", "fluvial-cli", "--features", "kafka"];
    let test = ["--test", "it", "kafka::", "--", "--nocapture"];
    cargo_with(variables, &[&package[..], &test[..]].concat())
}

/// The tests of the crate and, unless some are chosen, those of the program; the ones that need a
/// broker say so where there is none.
fn test(rest: &[String]) -> Result<()> {
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let command = [&["test", "--package", "fluvial-kafka"], &rest[..]].concat();
    let jars = match jars() {
        Ok(jars) => jars,
        Err(why) => {
            println!("kafka: SKIPPED on a real broker, because there is none: {why:#}");
            cargo_with(&[], &command)?;
            return if rest.is_empty() { program(&[]) } else { Ok(()) };
        }
    };
    let broker = Broker::start(&jars, &folder()?.join("test"))?;
    let jars = jars.display().to_string();
    let address = broker.address();
    let variables = [(VARIABLE, address.as_str()), (JARS, jars.as_str())];
    cargo_with(&variables, &command)?;
    if rest.is_empty() { program(&variables) } else { Ok(()) }
}

/// Starts a broker that stays.
fn up() -> Result<()> {
    if let Ok(pid) = std::fs::read_to_string(pid_file()?) {
        bail!("a broker is up already (process {}): cargo xtask kafka down", pid.trim());
    }
    let broker = Broker::start(&jars()?, &folder()?.join("up"))?;
    std::fs::write(pid_file()?, broker.child.id().to_string())?;
    println!("export {VARIABLE}={}", broker.address());
    // It outlives us.
    std::mem::forget(broker);
    Ok(())
}

fn down() -> Result<()> {
    let file = pid_file()?;
    let Ok(pid) = std::fs::read_to_string(&file) else {
        println!("no broker is up");
        return Ok(());
    };
    // The number may belong to somebody else by now.
    let command = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim()));
    if command.is_ok_and(|command| command.contains("kafka.Kafka")) {
        Command::new("kill").arg(pid.trim()).status().context("kill")?;
    }
    Ok(std::fs::remove_file(file)?)
}

fn folder() -> Result<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = std::path::absolute(target.join("kafka"))?;
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn pid_file() -> Result<PathBuf> {
    Ok(folder()?.join("pid"))
}

/// The jars, brought by Maven unless they are there.
fn jars() -> Result<PathBuf> {
    bring_jars("xtask/kafka/pom.xml", folder()?.join(VERSION))
}

/// The jars that a `pom.xml` names, with all that they need, in the folder `jars`.
pub(crate) fn bring_jars(pom: &str, jars: PathBuf) -> Result<PathBuf> {
    quietly(Command::new("java").arg("-version"))?;
    if !jars.is_dir() {
        // Complete or not at all.
        let partial = jars.with_extension("partial");
        let output = format!("-DoutputDirectory={}", partial.display());
        let copy = ["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"];
        quietly(Command::new("mvn").arg("-f").arg(root().join(pom)).args(copy).arg(output))?;
        std::fs::rename(partial, &jars)?;
    }
    Ok(jars)
}

fn quietly(command: &mut Command) -> Result<()> {
    let what = format!("{command:?}");
    let output = command.output().context(what.clone())?;
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        bail!("{what}: {}", text.lines().last().unwrap_or("failed"));
    }
    Ok(())
}

fn java(jars: &Path) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp"]).arg(jars.join("*"));
    command
}

/// A broker that ends with this value.
struct Broker {
    child: Child,
    port: u16,
}

impl Broker {
    /// A new, empty one, with its data in `folder`.
    fn start(jars: &Path, folder: &Path) -> Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)?;
        // Free a moment ago; whoever takes one in between makes the start fail, and is told.
        let free = || TcpListener::bind(("127.0.0.1", 0));
        let (first, second) = (free()?, free()?);
        let (port, control) = (first.local_addr()?.port(), second.local_addr()?.port());
        drop((first, second));
        let properties = folder.join("server.properties");
        std::fs::write(&properties, settings(port, control, &folder.join("data")))?;
        let format = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"];
        quietly(java(jars).args(format).arg(&properties))?;
        let log = std::fs::File::create(folder.join("log"))?;
        let child = java(jars)
            .arg("kafka.Kafka")
            .arg(&properties)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("java")?;
        let mut broker = Self { child, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if began.elapsed() > START_MAX || broker.child.try_wait()?.is_some() {
                bail!("the broker did not start: see {}", folder.join("log").display());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(broker)
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One node for everything, and no waiting for others.
fn settings(port: u16, control: u16, data: &Path) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{control}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         log.dirs={}\n\
         auto.create.topics.enable=true\n\
         group.initial.rebalance.delay.ms=0\n\
         offsets.topic.num.partitions=1\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.num.partitions=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n",
        data.display()
    )
}

//! A broker that dies in the middle of a batch, and comes back.

use super::broker::Real;
use crate::rows::{publish, values};
use fluvial_core::{ErrorKind, Result, Sink, Source};
use futures::executor::block_on;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A broker of its own, ended with this value.
struct Own {
    jars: PathBuf,
    folder: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Own {
    /// Where the environment names the jars.
    fn new() -> Option<Self> {
        let jars = PathBuf::from(std::env::var_os("FLUVIAL_KAFKA_JARS")?);
        let folder = jars.parent()?.join("restart");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let free = || TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (first, second) = (free(), free());
        let ports = [&first, &second].map(|socket| socket.local_addr().unwrap().port());
        // The settings of the other broker, with other ports and another folder.
        let other = std::fs::read_to_string(jars.parent()?.join("test/server.properties")).ok()?;
        let old = |key: &str| {
            let line = other.lines().find(|line| line.starts_with(key)).unwrap();
            line.rsplit([':', '=']).next().unwrap().to_owned()
        };
        let settings = other
            .replace(&format!(":{}", old("advertised.listeners")), &format!(":{}", ports[0]))
            .replace(&format!(":{}", old("controller.quorum.voters")), &format!(":{}", ports[1]))
            .replace(&old("log.dirs"), &folder.join("data").display().to_string());
        std::fs::write(folder.join("server.properties"), settings).unwrap();
        drop((first, second));
        let own = Self { jars, folder, port: ports[0], child: None };
        let format = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"];
        let formatted = own.java(&format).output().unwrap();
        assert!(formatted.status.success(), "{formatted:?}");
        Some(own)
    }

    fn java(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp"]).arg(self.jars.join("*"));
        command.args(arguments).arg(self.folder.join("server.properties"));
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn start(&mut self) {
        let child = self.java(&["kafka.Kafka"]).stdout(Stdio::null()).spawn().unwrap();
        self.child = Some(child);
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(90), "the broker does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Repeats what may pass, as the engine does.
fn patiently<T>(mut call: impl FnMut() -> Result<T>) -> T {
    let began = Instant::now();
    loop {
        match call() {
            Ok(value) => return value,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(began.elapsed() < Duration::from_secs(120), "{error}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

#[test]
fn a_broker_that_comes_back_finds_the_batch_once() {
    let Some(mut own) = Own::new() else {
        println!("SKIPPED: there is no broker; cargo xtask kafka test starts one");
        return;
    };
    own.start();
    let real = Real { servers: format!("127.0.0.1:{}", own.port) };
    real.create("r", 1);
    let (sink, _) = real.sink("r");
    block_on(publish(&sink, 0, values(&["0"]))).unwrap();
    let pairs = [("subscribe", "r"), ("startingOffsets", "earliest")];
    let source = crate::rows::source(real.cluster(), &pairs);
    let start = block_on(source.initial()).unwrap();
    let range = block_on(crate::rows::plan(&source, &start, None)).unwrap().unwrap();
    // The records of the batch are staged; the broker dies before they are committed.
    let staged = block_on(async {
        let mut writer =
            sink.writer(fluvial_core::BatchId(1), fluvial_core::PartitionId(0)).await?;
        writer.write(values(&["1"])).await?;
        writer.stage().await
    });
    let staged = staged.unwrap();
    own.kill();
    let commit = std::thread::spawn(move || {
        let note = crate::rows::note(1);
        patiently(|| block_on(sink.commit(fluvial_core::BatchId(1), vec![staged.clone()], &note)))
    });
    own.start();
    commit.join().unwrap();
    let rows = patiently(|| block_on(crate::rows::read(&source, &range)));
    assert_eq!(rows, [(0, 0, "0".to_owned())], "the planned range reads the same");
    assert_eq!(real.committed("r", 0), ["0", "1"]);
}

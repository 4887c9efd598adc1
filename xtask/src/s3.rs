//! Tests against a server that speaks S3: moto, from PyPI, on this machine.

use crate::{cargo_with, root};
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The version that `xtask/s3/server.py` serves.
const MOTO: &str = "moto[server]==5.2.5";
const BUCKET: &str = "fluvial";
const START_MAX: Duration = Duration::from_secs(60);

/// The variable that tells the tests where the server is.
pub(crate) const VARIABLE: &str = "FLUVIAL_S3";

/// Runs what has to be tested on S3.
pub(crate) fn run() -> Result<()> {
    let Some(server) = server()? else { return Ok(()) };
    let test = ["test", "--package", "fluvial-cli", "--package", "fluvial", "--test", "it"];
    cargo_with(
        &[(VARIABLE, &server.address())],
        &[&test[..], &["s3::", "--", "--nocapture"]].concat(),
    )
}

/// A server; says so where none can be had.
pub(crate) fn server() -> Result<Option<Server>> {
    match python_with_moto() {
        Ok(python) => Server::start(&python).map(Some),
        Err(why) => {
            println!("s3: SKIPPED, because there is no server to test against: {why:#}");
            Ok(None)
        }
    }
}

/// Installs the server beside what is built, unless it is there.
fn python_with_moto() -> Result<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = std::path::absolute(target.join("moto"))?;
    // What `pip` installs last.
    if !folder.join("bin/moto_server").exists() {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
        quietly(Command::new(python).args(["-m", "venv"]).arg(&folder))?;
        quietly(Command::new(folder.join("bin/pip")).args(["install", "--quiet", MOTO]))?;
    }
    Ok(folder.join("bin/python"))
}

fn quietly(command: &mut Command) -> Result<()> {
    let what = format!("{command:?}");
    let output = command.output().context(what.clone())?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{what}: {}", errors.lines().last().unwrap_or("failed"));
    }
    Ok(())
}

/// A server that ends with this value.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(python: &Path) -> Result<Self> {
        // Free a moment ago; whoever takes it in between makes the start fail, and is told.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let child = Command::new(python)
            .arg(root().join("xtask/s3/server.py"))
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("{}", python.display()))?;
        let server = Self { child, port };
        let began = Instant::now();
        while let Err(error) = server.create_bucket() {
            if began.elapsed() > START_MAX {
                return Err(error.context("the server did not start"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Any signature will do, but there has to be one.
    fn create_bucket(&self) -> Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(
            stream,
            "PUT /{BUCKET} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\
             Connection: close\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential=fluvial/20260101/us-east-1/s3/aws4_request, \
             SignedHeaders=host, Signature=0\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.split(' ').nth(1) {
            Some("200") => Ok(()),
            _ => bail!("{}", answer.lines().next().unwrap_or("no answer")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

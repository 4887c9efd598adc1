//! How long a batch takes to start over a folder with very many files, all but a few of which were
//! read before.
//!
//! ```text
//! cargo run --release --manifest-path benches/files/Cargo.toml --bin million_files -- FOLDER [FILES] [NEW] [FOLDERS]
//! ```
//!
//! Makes `FILES` small files (a million) in `FOLDER`, in one folder or in `FOLDERS` of the form
//! `k=v`; a first start takes note of them, then `NEW` more come (a hundred), and a new process
//! opens the source, takes up its log and plans a batch.

use fluvial_core::ddl::parse_ddl;
use fluvial_core::{BatchId, PlanRequest, ReadLimit, Result, RunId, Source};
use fluvial_sim::block_on;
use fluvial_sources::{FileFormat, FilePlace, FileSource, FolderNames, ListNames};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// As the library has it, without threads.
#[derive(Debug)]
struct Names;

#[async_trait::async_trait]
impl ListNames for Names {
    async fn list_names(&self, folder: &Path) -> Result<FolderNames> {
        FolderNames::read(&PathBuf::from("/").join(folder.as_ref()))
    }
}

fn file(folder: &std::path::Path, folders: usize, n: usize) -> std::io::Result<()> {
    let folder = match folders {
        0 => folder.to_path_buf(),
        folders => folder.join(format!("k={}", n % folders)),
    };
    fs::write(folder.join(format!("event-{n:09}.json")), format!("{{\"v\":{n}}}\n"))
}

async fn open(
    folder: &std::path::Path,
    log: &std::path::Path,
    existing: bool,
) -> Result<FileSource> {
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
    let place = FilePlace::new(Arc::clone(&store), "file:///", &folder.display().to_string())?;
    let options = [("includeExistingFiles", existing.to_string())];
    FileSource::builder(place.with_names(Arc::new(Names)), FileFormat::Json)
        .schema(parse_ddl("v BIGINT")?)
        .auto_loader()
        .options(fluvial_core::Options::new(options))
        .log(Arc::new(LocalFileSystem::new_with_prefix(log)?), Path::from("log"))
        .open()
        .await
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let folder = PathBuf::from(words.first().ok_or("which folder?")?);
    let number = |i: usize, default| words.get(i).map_or(Ok(default), |word| word.parse());
    let (files, new, folders) = (number(1, 1_000_000)?, number(2, 100)?, number(3, 0)?);
    let (landing, log) = (folder.join("landing"), folder.join("checkpoint"));
    fs::create_dir_all(&landing)?;
    fs::create_dir_all(&log)?;
    for n in 0..folders {
        fs::create_dir_all(landing.join(format!("k={n}")))?;
    }
    let made = Instant::now();
    for n in 0..files {
        file(&landing, folders, n)?;
    }
    println!("{files} files made in {:.1} s", made.elapsed().as_secs_f64());

    let run = RunId::new("first")?;
    let first = Instant::now();
    let newest = block_on(async {
        let source = open(&landing, &log, false).await?;
        let (start, limit) = (source.initial().await?, ReadLimit::NONE);
        let request = PlanRequest {
            batch: BatchId(0),
            run: &run,
            start: &start,
            limit,
            until: None,
            splits: 1,
        };
        let range =
            source.plan(request).await?.ok_or_else(|| fluvial_core::Error::invalid("none"))?;
        source.adopt(&range).await?;
        Ok::<_, fluvial_core::Error>(range)
    })?;
    println!("a first start takes note of them in {:.2} s", first.elapsed().as_secs_f64());
    for n in files..files + new {
        file(&landing, folders, n)?;
    }

    let run = RunId::new("second")?;
    for round in ["as they come", "again"] {
        let started = Instant::now();
        block_on(async {
            let source = open(&landing, &log, true).await?;
            let opened = started.elapsed().as_secs_f64();
            source.adopt(&newest).await?;
            let adopted = started.elapsed().as_secs_f64();
            let (start, limit) = (&newest.end, source.read_limit());
            let request =
                PlanRequest { batch: BatchId(1), run: &run, start, limit, until: None, splits: 1 };
            let range = source.plan(request).await?;
            let planned = started.elapsed().as_secs_f64();
            println!(
                "{round}: opened after {opened:.2} s, log read after {adopted:.2} s, a batch of \
                 {} files planned after {planned:.2} s",
                range.map_or(0, |_| new)
            );
            Ok::<_, fluvial_core::Error>(())
        })?;
    }
    Ok(())
}

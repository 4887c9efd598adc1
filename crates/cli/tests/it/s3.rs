//! The clickstream job with checkpoint and table on a server that speaks S3. `cargo xtask s3`
//! starts one and says where it is in `FLUVIAL_S3`; without it there is nothing to test.

use crate::program::{Folder, printed, table_rows};
use std::fs;

#[test]
fn the_clickstream_job_runs_on_s3() {
    let Ok(server) = std::env::var("FLUVIAL_S3") else { return };
    let place = format!("s3://fluvial/jobs-{}", std::process::id());
    let here = Folder::with_example("clickstream");
    let local = table_rows(&printed(&here.run(&[])));

    let there = Folder::with_example("clickstream");
    let script = there.path().join("pipeline.sql");
    let text = fs::read_to_string(&script).unwrap();
    let location = format!("LOCATION '{place}/out'");
    fs::write(&script, text.replace("LOCATION 'out/page_views_5m'", &location)).unwrap();
    let storage = [
        format!("storage.aws_endpoint={server}"),
        "storage.aws_allow_http=true".to_owned(),
        "storage.aws_region=us-east-1".to_owned(),
        "storage.aws_access_key_id=fluvial".to_owned(),
        "storage.aws_secret_access_key=fluvial".to_owned(),
    ];
    let checkpoint = format!("{place}/checkpoints");
    let mut arguments = vec!["--checkpoint", checkpoint.as_str()];
    for setting in &storage {
        arguments.extend(["--set", setting]);
    }
    let first = printed(&there.run(&arguments));
    assert_eq!(table_rows(&first), local);
    let second = printed(&there.run(&arguments));
    assert!(second.contains("nothing new"), "{second}");

    let landing = "landing/clicks/part-0002.json";
    for folder in [&here, &there] {
        let later = folder.path().join("later/part-0002.json");
        fs::copy(later, folder.path().join(landing)).unwrap();
    }
    let local = table_rows(&printed(&here.run(&[])));
    assert_eq!(table_rows(&printed(&there.run(&arguments))), local);

    let mut show = there.fluvial(&["checkpoint", "show", &checkpoint]);
    for setting in &storage {
        let (name, value) = setting.strip_prefix("storage.").unwrap().split_once('=').unwrap();
        show.env(name.to_ascii_uppercase(), value);
    }
    let shown = printed(&show.output().unwrap());
    assert!(shown.contains("batch 4 comes next"), "{shown}");
    assert!(!there.path().join("out").exists() && !there.path().join(".fluvial").exists());
    println!("s3: {} rows at {place}, as on the local disk", local.len());
}

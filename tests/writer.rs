//! A process that appends and acknowledges until it is killed: `writer JOURNAL honest|liar WRITERS BOOT`.
//!
//! Each acknowledgement is a line on standard output, `ack COMMIT HASH`, written after the append returned. As a liar
//! it is written before, which is what a store that replies before it commits would do.

#[expect(dead_code, reason = "the stories use the rest of it")]
mod probe;

use events::journal::encode;
use events::record::Boot;
use probe::{JOURNAL, after, stream};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use store::{Append, Appended, Faults, Open, Store};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Honest,
    Liar,
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    if let Err(error) = runtime.unwrap().block_on(run()) {
        let mut cause: Option<&dyn Error> = Some(&*error);
        while let Some(error) = cause {
            eprintln!("{error}");
            cause = error.source();
        }
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, manner, writers, boot] = arguments.as_slice() else {
        return Err("give JOURNAL honest|liar WRITERS BOOT".into());
    };
    let manner = match manner.as_str() {
        "honest" => Manner::Honest,
        "liar" => Manner::Liar,
        other => return Err(format!("{other} is neither honest nor liar").into()),
    };
    // Not the process id: over a long story the kernel gives one out twice, and commit ids follow from the boot.
    let boot = Boot(boot.parse()?);
    let open = Open { path: PathBuf::from(path), boot, fresh: JOURNAL, faults: Faults::none() };
    let store = Store::open(open)?;
    say("open");
    let writers = (0..writers.parse::<u32>()?)
        .map(|writer| tokio::spawn(write(store.clone(), writer, manner)));
    for writer in writers.collect::<Vec<_>>() {
        writer.await??;
    }
    Ok(())
}

/// Grows one stream without end.
async fn write(store: Store, writer: u32, manner: Manner) -> Result<(), String> {
    let stream = stream(&format!("w{writer}"));
    let mut tail = store.tail(&stream).await.map_err(|error| error.to_string())?;
    let payload = [u8::try_from(writer % 256).unwrap_or_default(); 300];
    loop {
        let append = after(&store, &stream, tail, &[&payload, &payload[..20]]);
        let acknowledgement = acknowledgement(&append);
        if manner == Manner::Liar {
            say(&acknowledgement);
        }
        match store.append(append).await {
            Appended::Appended { tail: next, .. } => tail = next,
            other => return Err(format!("{stream}: {other:?}")),
        }
        if manner == Manner::Honest {
            say(&acknowledgement);
        }
    }
}

fn acknowledgement(append: &Append) -> String {
    format!("ack {:032x} {}", append.commit.id.0, encode(&append.commit).hash)
}

/// One whole line, at once: what is said after this returned can not be taken back by a kill.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A parent that has gone ends this process too.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(2);
    }
}

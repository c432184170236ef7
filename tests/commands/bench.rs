//! End-to-end tests of `toolwire bench`: the built program measures another instance of itself. The tests check
//! what the report says, but never how long anything took.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use tempfile::TempDir;
use toolwire::{
    bench::report::{Metric, Report},
    dialect::ClientDialect,
};

use crate::support::{Server, run, toolwire};

fn bench(arguments: &[&str]) -> (i32, String, String) {
    run(toolwire(&["bench"]).args(arguments))
}

fn report(arguments: &[&str]) -> Report {
    let (status, stdout, stderr) = bench(arguments);
    assert_eq!(status, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

fn mock(arguments: &[&str]) -> Server {
    Server::start(toolwire(&["mock", "--listen", "127.0.0.1:0"]).args(arguments))
}

#[test]
fn bench_without_target_measures_clients_of_every_dialect() {
    for dialect in ClientDialect::all() {
        let dialect = format!("--client={}", dialect.dialect());
        let load =
            ["--json", "--rounds=1", "--requests=2", "--answer-tokens=4", "--no-baseline", "--tool-count=2"];
        let report = report(&[&load[..], &[&dialect]].concat());
        for target in &report.targets {
            let all = &target.all;
            let about = format!("{dialect}, {}: {:?}", target.name, target.complaints);
            assert_eq!((all.streams, all.good, all.tokens), (2, 2, 8), "{about}");
        }
    }
}

#[test]
fn bench_without_target_measures_its_own_toolwire() {
    let report = report(&[
        "--json",
        "--rounds=2",
        "--requests=3",
        "--answer-tokens=8",
        "--concurrency=2",
        "--tool-count=4",
    ]);
    let names: Vec<_> = report.targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names, ["direct", "toolwire"]);
    for target in report.targets.iter().chain(&report.baseline) {
        let all = &target.all;
        assert_eq!(
            (all.streams, all.good, all.tokens),
            (6, 6, 48),
            "{}: {:?}",
            target.name,
            target.complaints
        );
        assert_eq!((target.rounds.len(), target.timelines.len()), (2, 2));
        for metric in [Metric::Ttft, Metric::E2e] {
            assert_eq!(all.metrics[&metric].count, 6);
        }
        assert_eq!((all.metrics[&Metric::Added].count, all.metrics[&Metric::Itl].count), (48, 42));
    }
    assert!(report.baseline.is_some());
    let measures: Vec<_> = report.ratios.iter().map(|ratio| ratio.measure.as_str()).collect();
    assert!(measures.contains(&"added_p50") && measures.contains(&"ttft_p99"), "{measures:?}");
    if cfg!(target_os = "linux") {
        let process = report.targets[1].all.process.as_ref().unwrap();
        assert!(process.cpu_per_token > 0.0 && process.peak_kib > 0.0 && process.open_streams == 2);
    }
}

#[test]
fn every_dialect_and_load_model_is_reported_in_every_output() {
    let mock = mock(&["--generate", "--tokens=6", "--pace=none", "--answer=text-call"]);
    let target = format!("mock=http://{}", mock.address);
    let desk = TempDir::new().unwrap();
    let file = |name: &str| desk.path().join(name).to_str().unwrap().to_owned();
    for dialect in ["chat", "responses", "messages"] {
        let (json, csv, page) = (file("r.json"), file("r.csv"), file("r.html"));
        let load =
            ["--rate=200", "--requests=4", "--rounds=1", "--no-baseline", "--tool-count=2", "--strict"];
        let output = ["--json", &json, "--csv", &csv, "--html", &page];
        let target = ["--target", &target, "--client", dialect, "--pid", &format!("mock={}", mock.pid())];
        let (status, stdout, stderr) = bench(&[&load[..], &output, &target].concat());
        let report: Report = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
        let shown = &report.targets[0];
        assert_eq!((status, shown.all.good), (0, 4), "{dialect}: {stderr} {:?}", shown.complaints);
        assert_eq!(shown.all.metrics[&Metric::FirstCall].count, 4, "{dialect}");
        assert_eq!((report.dialect.as_str(), report.baseline), (dialect, None));
        assert!(report.load.starts_with("open loop, 200 streams/s, Poisson"), "{}", report.load);
        assert!(stdout.contains("TTFT"), "the table is shown, as all else goes to files: {stdout}");
        assert!(fs::read_to_string(csv).unwrap().contains("ttft"));
        assert!(fs::read_to_string(page).unwrap().starts_with("<!"));
    }
}

#[test]
fn fixtures_are_sent_as_load() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/chat/canonical");
    let report = report(&[
        "--json",
        "--replay",
        fixtures,
        "--concurrency=2",
        "--rounds=1",
        "--requests=4",
        "--pace=none",
    ]);
    for target in &report.targets {
        assert_eq!((target.all.good, target.all.streams), (4, 4), "{}: {:?}", target.name, target.complaints);
        assert_eq!(target.all.metrics[&Metric::FirstCall].count, 4);
    }
}

#[test]
fn ramp_finds_the_limit() {
    let mock = mock(&["--generate", "--tokens=2", "--pace=none"]);
    let target = format!("mock=http://{}", mock.address);
    let ramp = ["--ramp-to=2", "--ramp-step=50ms", "--json", "--quiet", "--target", &target];
    let of = |slo: &str| report(&[&ramp[..], &["--slo", slo]].concat()).ramps.remove(0);
    let found = of("bad_share<1%,ttft_p99<1000s");
    assert_eq!((found.streams, found.steps.len()), (Some(2), 2), "{found:?}");
    let found = of("ttft_p50<0ns");
    assert_eq!((found.streams, found.steps[0].held), (None, false), "{found:?}");
}

#[test]
fn protocol_errors_of_targets_are_reported_and_decide_the_exit_status() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("cut=http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || listener.incoming().flatten().for_each(cut));
    let run = ["--target", &target, "--no-baseline", "--rounds=1", "--requests=2", "--warm-up=0", "--json"];
    let (status, stdout, _) = bench(&run);
    let report: Report = serde_json::from_str(&stdout).unwrap();
    assert_eq!((status, report.targets[0].all.broken), (1, 2), "{stdout}");
    assert_eq!(report.targets[0].complaints.values().sum::<u64>(), 2);

    let nobody = bench(&["--target=http://127.0.0.1:1/v1", "--no-baseline", "--rounds=1", "--requests=1"]);
    assert_eq!(nobody.0, 1);
}

fn cut(mut socket: TcpStream) {
    let mut read = [0; 4096];
    let _ = socket.read(&mut read);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000\r\n\r\ndata: ";
    let _ = socket.write_all(head.as_bytes());
}

#[test]
fn invalid_command_line_exits_with_status_2() {
    for (wrong, told) in [
        (&["--slo", "ttft_p98<1s"][..], "p50"),
        (&["--slo", "ttft_p99<1s", "--rate=3"], "cannot be used with"),
        (&["--rate=0"], "greater than 0"),
        (&["--target=a=http://h/v1", "--pid=b=1"], "no such target"),
        (&["--target=a=http://h/v1", "--pid=a=0"], "process"),
        (&["--client=lumo"], "no client speaks `lumo`; known here: "),
        (&["--target=http://h/v1", "--prompts=/nowhere.jsonl"], "/nowhere.jsonl"),
    ] {
        let (status, stdout, stderr) = bench(wrong);
        assert!(stderr.contains(told), "{wrong:?}: {stderr}");
        assert_eq!(stdout, "", "{wrong:?}");
        assert_eq!(status, 2, "{wrong:?}");
    }
}

#[test]
fn target_with_a_private_authority_is_measured_over_tls() {
    let folder = TempDir::new().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mock = mock(&["--generate", "--pace=none", "--tokens=8"]);
    let config = format!(
        "listen = \"127.0.0.1:0\"\n[tls]\ncert = {cert:?}\nkey = \"file:{}\"\n[[upstreams]]\nname = \"up\"\ndialect = \"chat\"\n\
         base_url = \"http://{}/v1\"\n[[models]]\nname = \"*\"\n",
        key.display(),
        mock.address
    );
    let file = folder.path().join("toolwire.toml");
    fs::write(&file, config).unwrap();
    let server = Server::start(toolwire(&["serve", "--config"]).arg(&file));
    let url = format!("--target=over-tls=https://{}/v1", server.address);
    let load = ["--json", &url, "--rounds=1", "--requests=3", "--answer-tokens=8", "--no-baseline"];
    let ca = format!("--ca={}", cert.display());
    let trusting: Vec<_> = load.into_iter().chain([ca.as_str()]).collect();
    let all = &report(&trusting).targets[0].all;
    assert_eq!((all.streams, all.good, all.tokens), (3, 3, 24));

    let (status, report, _) = bench(&load);
    assert!(status == 1 && report.contains("certificate"), "{status}: {report}");
    let (status, _, errors) = bench(&[&url, &format!("--ca={}", key.display())]);
    assert!(
        status != 0 && errors.contains("--ca") && errors.contains("no certificate"),
        "{status}: {errors}"
    );
}

//! librdkafka against its own mock cluster: offsets, seeks and faults. Its transactions are not
//! faithful, so nothing is shown with it there.

use crate::rows::{self, batch, plan, read};
use fluvial_core::{ErrorKind, Options, Source};
use fluvial_kafka::broker::{Broker, Isolation, Names, Outgoing, Seek, TopicPartition};
use fluvial_kafka::{ClientOptions, Cluster};
use fluvial_sim::VirtualClock;
use futures::executor::block_on;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use std::sync::Arc;

fn mock(partitions: i32) -> (MockCluster<'static, DefaultProducerContext>, Cluster) {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic(rows::TOPIC, partitions, 1).unwrap();
    let cluster = connected(&mock.bootstrap_servers());
    (mock, cluster)
}

fn connected(servers: &str) -> Cluster {
    let mut options = Options::new([("kafka.bootstrap.servers", servers)]);
    Cluster::new(ClientOptions::take(&mut options).unwrap())
}

fn records(count: usize) -> Vec<Outgoing> {
    (0..count).map(|n| rows::record(0, &n.to_string())).collect()
}

#[test]
fn ranges_are_read_in_any_order() {
    let (_mock, cluster) = mock(1);
    block_on(async {
        cluster.send(&records(2000)).await.unwrap();
        let source = rows::source(cluster, &[("startingOffsets", "earliest")]);
        let start = source.initial().await.unwrap();
        let range = plan(&source, &start, None).await.unwrap().unwrap();
        let whole = read(&source, &range).await.unwrap();
        assert_eq!(whole.len(), 2000);
        for (from, until) in [(1000, 1500), (1500, 1600), (10, 20), (1999, 2000)] {
            let mut part = range.clone();
            part.splits[0].0["from"] = from.into();
            part.splits[0].0["until"] = until.into();
            let expected = &whole[from as usize..until as usize];
            assert_eq!(read(&source, &part).await.unwrap(), expected, "{from}..{until}");
        }
        assert_eq!(plan(&source, &range.end, None).await.unwrap(), None);
    });
}

#[test]
fn the_ends_of_logs_are_looked_up_together() {
    let (_mock, cluster) = mock(2);
    block_on(async {
        cluster.send(&records(7)).await.unwrap();
        let places = [0, 1].map(|p| TopicPartition::new(rows::TOPIC, p));
        for (seek, expected) in [(Seek::Latest, [7, 0]), (Seek::Earliest, [0, 0])] {
            let wanted = places.clone().map(|place| (place, seek));
            let found = cluster.offsets(&wanted, Isolation::ReadUncommitted).await.unwrap();
            let found = places.clone().map(|place| found[&place]);
            assert_eq!(found, expected.map(Some), "{seek:?}");
        }
        let topics = cluster.topics(Names::Of(&[rows::TOPIC, "nothing"])).await.unwrap();
        assert_eq!(Vec::from_iter(topics.keys()), [rows::TOPIC]);
        assert_eq!(topics[rows::TOPIC].partitions, [0, 1]);
    });
}

#[test]
fn a_fetch_that_fails_is_made_again() {
    let (mock, cluster) = mock(1);
    block_on(async {
        cluster.send(&records(50)).await.unwrap();
        let errors = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION; 2];
        mock.request_errors(RDKafkaApiKey::Fetch, &errors);
        let source = rows::source(cluster, &[("startingOffsets", "earliest")]);
        let start = source.initial().await.unwrap();
        assert_eq!(batch(&source, &start).await.unwrap().0.len(), 50);
    });
}

#[test]
fn an_offset_that_the_log_does_not_have_is_told() {
    let (_mock, cluster) = mock(1);
    block_on(async {
        cluster.send(&records(5)).await.unwrap();
        let rows = fluvial_kafka::RangeRows::new(TopicPartition::new(rows::TOPIC, 0), 100, 110);
        let mut batches = cluster.fetch(rows, Isolation::ReadCommitted);
        let error = futures::TryStreamExt::try_next(&mut batches).await.unwrap_err();
        assert_eq!(error.condition(), Some("KAFKA_OFFSET_OUT_OF_RANGE"), "{error}");
    });
}

/// Trap J: a login is in no error, whatever is printed.
#[test]
fn settings_that_make_no_client_are_refused_without_their_values() {
    let (_mock, _) = mock(1);
    for (name, value) in [("kafka.no.such.setting", "hunter2"), ("kafka.linger.ms", "hunter2")] {
        let pairs = [("kafka.bootstrap.servers", "localhost:1"), (name, value)];
        let options = ClientOptions::take(&mut Options::new(pairs)).unwrap();
        let cluster = Cluster::new(options);
        let error = block_on(cluster.topics(Names::All)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let shown = format!("{error:?} {error} {cluster:?}");
        assert!(shown.contains(&name[6..]) && !shown.contains("hunter2"), "{shown}");
        let options = rows::options(&[(name, value), ("kafka.sasl.password", "hunter2")]);
        let source = fluvial_kafka::KafkaSource::new(
            Arc::new(cluster),
            options.clone(),
            Arc::new(VirtualClock::new()),
        );
        let shown = format!("{options:?} {source:?} {}", source.description());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

//! Options of the client: everything that begins with `kafka.`, handed on to librdkafka.
//!
//! They hold passwords and keys, so nothing here prints a value: not `Debug`, not an error.

use fluvial_core::{Error, Options, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What Spark refuses, and what would break what the source and the sink promise.
const REFUSED: &[(&str, &str)] = &[
    ("auto.offset.reset", "use startingOffsets: it says where a new query starts"),
    ("key.deserializer", "keys are binary: use CAST(key AS STRING)"),
    ("value.deserializer", "values are binary: use CAST(value AS STRING)"),
    ("key.serializer", "cast the column key to STRING or BINARY"),
    ("value.serializer", "cast the column value to STRING or BINARY"),
    ("enable.auto.commit", "offsets are kept in the checkpoint and are not committed"),
    ("enable.auto.offset.store", "offsets are kept in the checkpoint"),
    ("enable.partition.eof", "the source sets it"),
    ("interceptor.classes", "there is no Java here"),
    ("partitioner.class", "there is no Java here: write a column partition"),
    ("enable.idempotence", "the sink sets it"),
    ("transactional.id", "the sink sets it: see transactionalIdPrefix"),
    ("debug", "the source sets it"),
    ("plugin.library.paths", "no code is loaded"),
];

/// Java's names of settings whose name differs in librdkafka.
const JAVA: &[(&str, &str)] = &[
    ("ssl.truststore.location", "kafka.ssl.ca.location, a file in PEM"),
    ("ssl.truststore.password", "kafka.ssl.ca.location, a file in PEM"),
    ("ssl.truststore.type", "kafka.ssl.ca.location, a file in PEM"),
    ("max.poll.records", "maxOffsetsPerTrigger"),
];

/// Settings of the client, without its prefix `kafka.`.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientOptions {
    settings: BTreeMap<String, String>,
    /// How long a read waits for the brokers.
    poll_timeout: Duration,
}

impl ClientOptions {
    /// Takes the names that begin with `kafka.` out of `options`.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no `kafka.bootstrap.servers`, or if a setting is refused.
    pub fn take(options: &mut Options) -> Result<Self> {
        let mut settings = BTreeMap::new();
        for (name, value) in options.take_prefixed("kafka.") {
            let name = name["kafka.".len()..].to_lowercase();
            if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
                return Err(Error::invalid(format!("option 'kafka.{name}' cannot be set: {why}"))
                    .with_condition("OPTION_NOT_SUPPORTED"));
            }
            if let Some((_, instead)) = JAVA.iter().find(|(java, _)| *java == name) {
                return Err(Error::invalid(format!(
                    "option 'kafka.{name}' is one of Java's client: use {instead}"
                ))
                .with_condition("OPTION_NOT_SUPPORTED"));
            }
            match (name.as_str(), jaas(&value)) {
                ("sasl.jaas.config", None) => {
                    return Err(Error::invalid(
                        "option 'kafka.sasl.jaas.config' is understood for PlainLoginModule and \
                         ScramLoginModule with username=\"..\" and password=\"..\": otherwise use \
                         kafka.sasl.username and kafka.sasl.password",
                    )
                    .with_condition("INVALID_OPTION_VALUE"));
                }
                ("sasl.jaas.config", Some((user, password))) => {
                    settings.insert("sasl.username".into(), user);
                    settings.insert("sasl.password".into(), password);
                }
                _ => {
                    settings.insert(name, value);
                }
            }
        }
        if settings.get("bootstrap.servers").is_none_or(|servers| servers.trim().is_empty()) {
            return Err(Error::invalid(
                "option 'kafka.bootstrap.servers' is needed: the addresses of some brokers, as \
                 in 'host:9092,other:9092'",
            )
            .with_condition("KAFKA_OPTION_MISSING"));
        }
        Ok(Self { settings, poll_timeout: Duration::from_secs(120) })
    }

    /// A setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Takes a setting out.
    pub(crate) fn remove(&mut self, name: &str) -> Option<String> {
        self.settings.remove(name)
    }

    pub(crate) fn set_poll_timeout(&mut self, timeout: Duration) {
        self.poll_timeout = timeout;
    }

    pub(crate) fn poll_timeout(&self) -> Duration {
        self.poll_timeout
    }

    /// The name under which readers show up at the brokers: no group is joined, but rights are
    /// given by it. A group that the user sets counts.
    pub(crate) fn set_group(&mut self, prefix: Option<String>) {
        let group = prefix.unwrap_or_else(|| "fluvial-kafka-source".to_owned());
        self.settings.entry("group.id".to_owned()).or_insert(group);
    }

    /// All settings, with their secrets: for the client only.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for ClientOptions {
    /// Names only: any value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.settings.keys()).finish()
    }
}

/// The user and the password of a login as Java writes it, which people copy from their
/// provider's page.
fn jaas(text: &str) -> Option<(String, String)> {
    let module = text.split_whitespace().next()?;
    if !module.ends_with(".PlainLoginModule") && !module.ends_with(".ScramLoginModule") {
        return None;
    }
    let value = |name: &str| {
        let rest = &text[text.find(&format!("{name}="))? + name.len() + 1..];
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        rest[1..].split(quote).next().map(str::to_owned)
    };
    Some((value("username")?, value("password")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hunter2";

    fn take(pairs: &[(&str, &str)]) -> Result<ClientOptions> {
        let mut options = Options::new(pairs.iter().copied());
        options.set("kafka.bootstrap.servers", "b:9092");
        ClientOptions::take(&mut options)
    }

    #[test]
    fn settings_are_handed_on() {
        let taken = take(&[("kafka.Security.Protocol", "SASL_SSL")]).unwrap();
        assert_eq!(taken.get("security.protocol"), Some("SASL_SSL"));
        assert_eq!(taken.get("bootstrap.servers"), Some("b:9092"));
    }

    #[test]
    fn what_spark_refuses_is_refused() {
        for (name, _) in REFUSED.iter().chain(JAVA) {
            let error = take(&[(&format!("kafka.{name}"), SECRET)]).unwrap_err();
            assert_eq!(error.condition(), Some("OPTION_NOT_SUPPORTED"), "{name}");
            assert!(error.to_string().contains(name), "{error}");
            assert!(!error.to_string().contains(SECRET), "{error}");
        }
    }

    #[test]
    fn servers_are_needed() {
        let error = ClientOptions::take(&mut Options::default()).unwrap_err();
        assert_eq!(error.condition(), Some("KAFKA_OPTION_MISSING"));
    }

    #[test]
    fn secrets_are_not_shown() {
        let taken = take(&[("kafka.sasl.password", SECRET), ("kafka.ssl.key.pem", SECRET)]);
        let shown = format!("{:?}", taken.unwrap());
        assert!(shown.contains("sasl.password") && !shown.contains(SECRET), "{shown}");
    }

    #[test]
    fn a_login_as_java_writes_it_is_understood() {
        let login = "org.apache.kafka.common.security.plain.PlainLoginModule required \
                     username=\"$ConnectionString\" password=\"Endpoint=sb://x/;Key=a=\";";
        let taken = take(&[("kafka.sasl.jaas.config", login)]).unwrap();
        assert_eq!(taken.get("sasl.username"), Some("$ConnectionString"));
        assert_eq!(taken.get("sasl.password"), Some("Endpoint=sb://x/;Key=a="));
        assert_eq!(taken.get("sasl.jaas.config"), None);
        let error = take(&[("kafka.sasl.jaas.config", SECRET)]).unwrap_err();
        assert!(!error.to_string().contains(SECRET), "{error}");
    }
}

//! librdkafka's errors as ours: what the caller has to do, and no secret in any.

use super::watcher::Watcher;
use crate::client_options::ClientOptions;
use crate::source::OUT_OF_RANGE;
use fluvial_core::{Error, ErrorKind};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

/// Words in the names of settings whose values are secrets.
const SECRET: &[&str] =
    &["password", "secret", "key", "token", "pem", "jaas", "oauthbearer.config"];

/// Whether a topic or a partition does not exist.
pub(super) fn is_unknown(code: Code) -> bool {
    matches!(
        code,
        Code::UnknownTopicOrPartition
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::InvalidTopic
    )
}

/// Whether somebody may not do something.
pub(super) fn is_denied(code: Code) -> bool {
    matches!(
        code,
        Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::UnsupportedSASLMechanism
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::DelegationTokenAuthorizationFailed
    )
}

fn is_fenced(code: Code) -> bool {
    matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
}

/// What can only be mended by somebody.
fn is_invalid(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::UnsupportedVersion
            | Code::UnsupportedFeature
            | Code::UnsupportedForMessageFormat
            | Code::UnsupportedCompressionType
            | Code::InvalidConfig
            | Code::InvalidArgument
            | Code::InvalidTransactionTimeout
            | Code::InvalidReplicationFactor
            | Code::PolicyViolation
            | Code::InvalidRecord
    )
}

/// Makes errors of one client.
pub(super) struct Failure<'a> {
    pub(super) options: &'a ClientOptions,
    /// What the client has said besides.
    pub(super) last: Option<(Code, String)>,
}

impl<'a> Failure<'a> {
    /// With what a client has said.
    pub(super) fn by(self, watcher: &Watcher) -> Self {
        Self { last: watcher.last_error(), ..self }
    }

    /// What an error means to somebody who wanted to do `what`.
    pub(super) fn of(&self, error: &KafkaError, what: &str) -> Error {
        match error {
            // Its text has the value.
            KafkaError::ClientConfig(_, _, name, _) => Error::invalid(format!(
                "option 'kafka.{name}' has a name or a value that librdkafka does not take: see \
                 its page CONFIGURATION.md"
            ))
            .with_condition("INVALID_OPTION_VALUE"),
            KafkaError::ClientCreation(text) => {
                let text = self.redacted(text);
                Error::invalid(format!("the options kafka.* do not make a client: {text}"))
                    .with_condition("INVALID_OPTION_VALUE")
            }
            other => match other.rdkafka_error_code() {
                Some(code) => self.code(code, what),
                None => Error::unavailable(self.redacted(&format!("cannot {what}: {other}"))),
            },
        }
    }

    /// The same for a code alone.
    pub(super) fn code(&self, code: Code, what: &str) -> Error {
        let cause = self.last.as_ref().filter(|_| is_vague(code));
        let told = cause.map_or(code, |(cause, _)| *cause);
        let why = cause.map_or_else(|| code.to_string(), |(_, text)| format!("{code}: {text}"));
        let message = self.redacted(&format!("cannot {what}: {why}"));
        if is_denied(told) {
            let text = format!("{message}: give the program access, or look at its login");
            return Error::invalid(text).with_condition("ACCESS_DENIED");
        }
        match code {
            Code::OffsetOutOfRange | Code::AutoOffsetReset => {
                Error::not_found(message).with_condition(OUT_OF_RANGE)
            }
            _ if is_unknown(code) => Error::not_found(format!("{message}: create the topic"))
                .with_condition("KAFKA_TOPIC_NOT_FOUND"),
            _ if is_fenced(code) => Error::fenced(message),
            _ if is_invalid(code) => Error::new(ErrorKind::Invalid, message),
            _ => Error::unavailable(message),
        }
    }

    /// A text without the values of secrets.
    fn redacted(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in self.options.settings() {
            if !value.is_empty() && SECRET.iter().any(|word| name.contains(word)) {
                text = text.replace(value, "***");
            }
        }
        text
    }
}

/// Whether a code says only that there was no answer.
fn is_vague(code: Code) -> bool {
    matches!(
        code,
        Code::OperationTimedOut
            | Code::MessageTimedOut
            | Code::BrokerTransportFailure
            | Code::AllBrokersDown
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::Options;
    use rdkafka::error::KafkaError as E;

    fn options() -> ClientOptions {
        let pairs = [("kafka.bootstrap.servers", "b:1"), ("kafka.sasl.password", "hunter2")];
        ClientOptions::take(&mut Options::new(pairs)).unwrap()
    }

    #[test]
    fn the_kind_says_what_to_do() {
        let options = options();
        let failure = Failure { options: &options, last: None };
        for (code, kind) in [
            (Code::ProducerFenced, ErrorKind::Fenced),
            (Code::InvalidProducerEpoch, ErrorKind::Fenced),
            (Code::OperationTimedOut, ErrorKind::Unavailable),
            (Code::NotLeaderForPartition, ErrorKind::Unavailable),
            (Code::MessageSizeTooLarge, ErrorKind::Invalid),
            (Code::TopicAuthorizationFailed, ErrorKind::Invalid),
            (Code::UnknownTopicOrPartition, ErrorKind::NotFound),
            (Code::OffsetOutOfRange, ErrorKind::NotFound),
        ] {
            assert_eq!(failure.of(&E::Global(code), "write").kind(), kind, "{code:?}");
        }
    }

    #[test]
    fn a_timeout_says_why() {
        let options = options();
        let last = Some((Code::Authentication, "login of hunter2 failed".to_owned()));
        let failure = Failure { options: &options, last };
        let error = failure.of(&E::MetadataFetch(Code::OperationTimedOut), "look");
        assert_eq!(error.condition(), Some("ACCESS_DENIED"));
        assert!(error.message().contains("***") && !error.message().contains("hunter2"), "{error}");
    }
}

//! Text in other encodings, made UTF-8 before anything else looks at it.
//!
//! What an encoding has no character for becomes U+FFFD, as for UTF-8.

use bytes::Bytes;
use fluvial_core::{Options, Result};
use futures::StreamExt;
use futures::stream::BoxStream;

/// How text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Encoding {
    #[default]
    Utf8,
    /// ISO 8859-1: every byte is the character of its number.
    Latin1,
    Ascii,
    /// The byte order mark says in which order; without one it is the big end first.
    Utf16,
    Utf16Little,
    Utf16Big,
}

/// The names of the options.
pub(crate) const ENCODING_OPTIONS: [&str; 2] = ["encoding", "charset"];

impl Encoding {
    /// Takes `encoding`, or `charset`, out.
    pub(crate) fn take(options: &mut Options) -> Result<Self> {
        let mut found = Self::default();
        for name in ["charset", "encoding"] {
            let expected = "UTF-8, UTF-16, UTF-16LE, UTF-16BE, ISO-8859-1 or US-ASCII";
            found = options.take_with(name, expected, Self::of)?.unwrap_or(found);
        }
        Ok(found)
    }

    fn of(name: &str) -> Option<Self> {
        Some(match name.to_uppercase().as_str() {
            "UTF-8" | "UTF8" => Self::Utf8,
            "ISO-8859-1" | "ISO8859-1" | "LATIN1" | "LATIN-1" => Self::Latin1,
            "US-ASCII" | "ASCII" => Self::Ascii,
            "UTF-16" | "UTF16" => Self::Utf16,
            "UTF-16LE" | "UTF16LE" => Self::Utf16Little,
            "UTF-16BE" | "UTF16BE" => Self::Utf16Big,
            _ => return None,
        })
    }

    /// The same text in UTF-8.
    pub(crate) fn decode(
        self,
        chunks: BoxStream<'static, Result<Bytes>>,
    ) -> BoxStream<'static, Result<Bytes>> {
        if self == Self::Utf8 {
            return chunks;
        }
        let state = (chunks, Some(Transcoder::new(self)));
        futures::stream::try_unfold(state, |(mut chunks, decoder)| async move {
            let Some(mut decoder) = decoder else { return Ok(None) };
            match chunks.next().await {
                Some(chunk) => Ok(Some((decoder.push(&chunk?), (chunks, Some(decoder))))),
                None => Ok(Some((decoder.finish(), (chunks, None)))),
            }
        })
        .boxed()
    }
}

/// Makes UTF-8 of chunks that may end anywhere.
#[derive(Debug)]
struct Transcoder {
    encoding: Encoding,
    /// Half a unit.
    odd: Option<u8>,
    /// The first of two surrogates.
    high: Option<u16>,
}

impl Transcoder {
    fn new(encoding: Encoding) -> Self {
        Self { encoding, odd: None, high: None }
    }

    fn push(&mut self, chunk: &[u8]) -> Bytes {
        let mut out = String::with_capacity(chunk.len());
        match self.encoding {
            Encoding::Latin1 => out.extend(chunk.iter().map(|byte| char::from(*byte))),
            Encoding::Ascii => {
                let character = |byte: &u8| {
                    if byte.is_ascii() { char::from(*byte) } else { char::REPLACEMENT_CHARACTER }
                };
                out.extend(chunk.iter().map(character));
            }
            _ => {
                for byte in chunk {
                    match self.odd.take() {
                        None => self.odd = Some(*byte),
                        Some(first) => self.unit([first, *byte], &mut out),
                    }
                }
            }
        }
        out.into()
    }

    fn unit(&mut self, bytes: [u8; 2], out: &mut String) {
        if self.encoding == Encoding::Utf16 {
            self.encoding = match bytes {
                [0xff, 0xfe] => Encoding::Utf16Little,
                _ => Encoding::Utf16Big,
            };
        }
        let unit = match self.encoding {
            Encoding::Utf16Little => u16::from_le_bytes(bytes),
            _ => u16::from_be_bytes(bytes),
        };
        let high = self.high.take();
        if matches!(unit, 0xd800..=0xdbff) {
            out.extend(high.map(|_| char::REPLACEMENT_CHARACTER));
            self.high = Some(unit);
            return;
        }
        let units = high.into_iter().chain([unit]);
        let character = |found: Result<char, _>| found.unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend(char::decode_utf16(units).map(character));
    }

    fn finish(&mut self) -> Bytes {
        let half = self.odd.take().is_some() || self.high.take().is_some();
        if half { Bytes::from_static("\u{fffd}".as_bytes()) } else { Bytes::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_sim::block_on;
    use futures::TryStreamExt;

    fn decoded(name: &str, file: &[u8], chunk: usize) -> String {
        let chunks: Vec<_> = file.chunks(chunk).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let stream = Encoding::of(name).unwrap().decode(futures::stream::iter(chunks).boxed());
        String::from_utf8(block_on(stream.try_collect::<Vec<_>>()).unwrap().concat()).unwrap()
    }

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn every_encoding_gives_the_same_text_however_it_is_cut() {
        let text = "a,é\n\u{1d11e},\u{20ac}\n";
        for chunk in 1..9 {
            let marked = format!("\u{feff}{text}");
            assert_eq!(decoded("utf-16", &utf16(&marked, u16::to_le_bytes), chunk), marked);
            assert_eq!(decoded("UTF-16", &utf16(&marked, u16::to_be_bytes), chunk), marked);
            assert_eq!(decoded("UTF-16", &utf16(text, u16::to_be_bytes), chunk), text);
            assert_eq!(decoded("UTF-16LE", &utf16(text, u16::to_le_bytes), chunk), text);
            assert_eq!(decoded("UTF-16BE", &utf16(text, u16::to_be_bytes), chunk), text);
            assert_eq!(decoded("latin1", b"\xe9\n", chunk), "é\n");
            assert_eq!(decoded("US-ASCII", b"\xe9x", chunk), "\u{fffd}x");
        }
    }

    #[test]
    fn what_is_no_text_is_replaced() {
        assert_eq!(decoded("UTF-16BE", &[0xd8, 0, 0, b'x'], 3), "\u{fffd}x");
        assert_eq!(decoded("UTF-16BE", &[0, b'x', 0], 1), "x\u{fffd}");
        assert_eq!(decoded("UTF-16BE", &[0xd8, 0], 1), "\u{fffd}");
        assert_eq!(decoded("UTF-16BE", &[0xdc, 0, 0, b'x'], 1), "\u{fffd}x");
        assert_eq!(Encoding::of("EBCDIC"), None);
    }
}

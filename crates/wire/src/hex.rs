//! Converts bytes to hexadecimal digits and back.

/// Returns the bytes as lower-case digits.
pub fn encode(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// Parses exactly `2 * N` digits in upper or lower case. Returns `None` for anything else.
pub fn decode<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_they_were_written() {
        let bytes: [u8; 256] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let written = encode(&bytes);
        assert!(written.starts_with("000102") && written.ends_with("fdfeff"), "{written}");
        assert_eq!(decode(written.as_bytes()), Some(bytes));
        assert_eq!(decode(written.to_uppercase().as_bytes()), Some(bytes));
    }

    #[test]
    fn other_texts_are_not_digits() {
        for text in ["", "0", "000", "0000", "0g", "+1", " 1", "é"] {
            assert_eq!(decode::<1>(text.as_bytes()), None, "{text}");
        }
    }
}

//! The character references of HTML that pages use most.

/// Maximum length of a reference, in bytes.
const MAX_NAME: usize = 10;

/// The name of each reference, in the order of their names.
const NAMES: &[(&str, char)] = &[
    ("AElig", 'Æ'), ("Aacute", 'Á'), ("Acirc", 'Â'), ("Agrave", 'À'), ("Aring", 'Å'), ("Atilde", 'Ã'), ("Auml", 'Ä'),
    ("Ccedil", 'Ç'), ("Eacute", 'É'), ("Ecirc", 'Ê'), ("Egrave", 'È'), ("Euml", 'Ë'), ("Iacute", 'Í'), ("Icirc", 'Î'),
    ("Ntilde", 'Ñ'), ("Oacute", 'Ó'), ("Ocirc", 'Ô'), ("Oslash", 'Ø'), ("Ouml", 'Ö'), ("Uacute", 'Ú'), ("Uuml", 'Ü'),
    ("aacute", 'á'), ("acirc", 'â'), ("aelig", 'æ'), ("agrave", 'à'), ("amp", '&'), ("apos", '\''), ("aring", 'å'),
    ("atilde", 'ã'), ("auml", 'ä'), ("bdquo", '„'), ("bull", '•'), ("ccedil", 'ç'), ("cent", '¢'), ("copy", '©'),
    ("darr", '↓'), ("deg", '°'), ("divide", '÷'), ("eacute", 'é'), ("ecirc", 'ê'), ("egrave", 'è'), ("euml", 'ë'),
    ("euro", '€'), ("frac12", '½'), ("ge", '≥'), ("gt", '>'), ("hellip", '…'), ("iacute", 'í'), ("icirc", 'î'),
    ("igrave", 'ì'), ("iuml", 'ï'), ("laquo", '«'), ("larr", '←'), ("ldquo", '“'), ("le", '≤'), ("lsquo", '‘'),
    ("lt", '<'), ("mdash", '—'), ("middot", '·'), ("minus", '−'), ("nbsp", ' '), ("ndash", '–'), ("ne", '≠'),
    ("ntilde", 'ñ'), ("oacute", 'ó'), ("ocirc", 'ô'), ("oelig", 'œ'), ("ograve", 'ò'), ("oslash", 'ø'), ("otilde", 'õ'),
    ("ouml", 'ö'), ("para", '¶'), ("plusmn", '±'), ("pound", '£'), ("quot", '"'), ("raquo", '»'), ("rarr", '→'),
    ("rdquo", '”'), ("reg", '®'), ("rsquo", '’'), ("sect", '§'), ("shy", '\u{ad}'), ("szlig", 'ß'), ("thinsp", ' '),
    ("times", '×'), ("trade", '™'), ("uacute", 'ú'), ("uarr", '↑'), ("ucirc", 'û'), ("ugrave", 'ù'), ("uuml", 'ü'),
    ("yen", '¥'), ("yuml", 'ÿ'),
];

/// The character for the reference at the start of `text`, which follows `&`, and what is behind it.
pub(super) fn character(text: &str) -> Option<(char, &str)> {
    let start = text.get(..text.floor_char_boundary(MAX_NAME))?;
    let end = start.find(';')?;
    let (name, behind) = (text.get(..end)?, text.get(end + 1..)?);
    let char = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|char| *char != '\0')?
        }
        None => NAMES.binary_search_by_key(&name, |(known, _)| known).ok().and_then(|at| NAMES.get(at))?.1,
    };
    Some((char, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order() {
        assert!(NAMES.is_sorted_by_key(|(name, _)| name));
    }
}

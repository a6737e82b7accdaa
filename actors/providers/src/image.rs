//! Images by value: `data:image/png;base64,…`, for the families that take no address.

/// An image by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inline<'a> {
    /// Its media type, one of those that were asked for.
    pub(crate) kind: &'static str,
    /// Its bytes in base64, as they came.
    pub(crate) data: &'a str,
}

impl<'a> Inline<'a> {
    /// Reads an image's address.
    ///
    /// # Errors
    ///
    /// What is wrong with it, as a part of a message that has it: it stands elsewhere, is not in base64, or is of a
    /// type that the family does not read.
    pub(crate) fn read(url: &'a str, kinds: &[&'static str]) -> Result<Self, &'static str> {
        let value = url.strip_prefix("data:").ok_or(
            "an image by address, which this provider does not fetch (send it as data:…;base64,…)",
        )?;
        let (head, data) = value.split_once(',').unwrap_or((value, ""));
        let kind = head.strip_suffix(";base64").ok_or("an image that is not in base64")?;
        let kind = kind.split(';').next().unwrap_or_default().to_ascii_lowercase();
        let kind = if kind == "image/jpg" { "image/jpeg" } else { &kind };
        let known = kinds.iter().find(|known| **known == kind);
        let kind = known.ok_or("an image of a type that this provider does not read")?;
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte);
        if data.is_empty() || !data.bytes().all(is_base64) {
            return Err("an image that is not in base64");
        }
        Ok(Self { kind, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_by_value_is_read_and_others_are_told_apart() {
        let read = |url| Inline::read(url, &["image/png", "image/jpeg"]);
        assert_eq!(
            read("data:image/png;base64,iVBOR+/="),
            Ok(Inline { kind: "image/png", data: "iVBOR+/=" })
        );
        assert_eq!(read("data:image/JPG;base64,AA").map(|image| image.kind), Ok("image/jpeg"));
        for (url, about) in [
            ("https://h/x.png", "by address"),
            ("data:image/png,AA", "base64"),
            ("data:image/png;base64,", "base64"),
            ("data:image/png;base64,A A", "base64"),
            ("data:image/tiff;base64,AA", "type"),
            ("data:", "base64"),
        ] {
            assert!(read(url).unwrap_err().contains(about), "{url}");
        }
    }
}

// Package short shortens texts from outside (files, lines, clients) before errors and logs show them.
package short

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Most is the maximum length of a shortened text in bytes. A line of the log has room for that and for a message about it.
const Most = 200

// Text shortens s to at most Most bytes of valid UTF-8, and marks a cut by ".." at the end.
func Text(s string) string { return To(s, Most) }

// Quote is s in quotes, as %q writes it, in at most Most bytes. ".." follows if it was longer.
func Quote(s string) string {
	if len(s) <= Most {
		if q := strconv.Quote(s); len(q) <= Most {
			return q
		}
	}
	const quotes = len(`""..`)
	end, room := 0, Most-quotes
	for end < len(s) {
		_, size := utf8.DecodeRuneInString(s[end:])
		room -= len(strconv.Quote(s[end:end+size])) - len(`""`)
		if room < 0 {
			break
		}
		end += size
	}
	return strconv.Quote(s[:end]) + ".."
}

// To shortens s to valid UTF-8 of no more than most bytes, from 4, and marks a cut by ".." at the end.
func To(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(s, "?")
	}
	end := most - len("..")
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.ToValidUTF8(s[:end], "?") + ".."
}

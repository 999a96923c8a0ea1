package game

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/evald/evald/engine/short"
)

// DecodeJSON reads a text from outside, which must be one JSON value. It refuses what two readers may understand differently:
// an object that has a key twice, also in another case if it is that of a field, and bytes that are not UTF-8. Errors are
// of type *ParseError. Their field is the path of a value of the wrong type, such as configuration.rows, otherwise json.
func DecodeJSON(text []byte, into any, options ...jsonv2.Options) error {
	err := jsonv2.Unmarshal(text, into, jsonv2.JoinOptions(options...), jsonv2.MatchCaseInsensitiveNames(true), jsonv1.MatchCaseSensitiveDelimiter(true))
	if err == nil {
		return nil
	}
	fail := func(reason string) error { return &ParseError{Field: "json", Value: string(text), Reason: reason} }
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return fail(keyTwice(text, syntax.JSONPointer))
	}
	// encoding/json accepts bytes that are not UTF-8 and unknown fields. Its words for all else are better known.
	first := json.Unmarshal(text, into)
	wrong, typed := errors.AsType[*json.UnmarshalTypeError](first)
	switch {
	case typed:
		name := wrong.Type.String()
		if k := wrong.Type.Kind(); k == reflect.Struct || k == reflect.Map {
			name = "object"
		}
		return &ParseError{Field: cmp.Or(wrong.Field, "json"), Value: wrong.Value, Reason: "is not of type " + name}
	case first != nil:
		return fail(first.Error())
	case !utf8.Valid(text) && ok:
		return fail(fmt.Sprintf("byte %d is no UTF-8", syntax.ByteOffset))
	}
	if unknown, ok := errors.AsType[*jsonv2.SemanticError](err); ok && errors.Is(err, jsonv2.ErrUnknownName) {
		return fail("unknown field " + short.Quote(unknown.JSONPointer.LastToken()))
	}
	return fail(err.Error())
}

// keyTwice says which key its object has twice, and how it was written before.
func keyTwice(text []byte, at jsontext.Pointer) string {
	reason := "key " + short.Quote(at.LastToken()) + " is there twice"
	for d := jsontext.NewDecoder(bytes.NewReader(text)); ; {
		_, err := d.ReadToken()
		other := d.StackPointer()
		switch {
		case err != nil || other == at:
			return reason
		case other.Parent() == at.Parent() && strings.EqualFold(other.LastToken(), at.LastToken()):
			return reason + ", once as " + short.Quote(other.LastToken())
		}
	}
}

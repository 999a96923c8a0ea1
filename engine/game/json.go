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

// DecodeJSON decodes a text from outside, which must be one JSON value. It rejects texts that two readers may understand differently:
// duplicate keys in an object (fields also if they differ only in case), and bytes that are not UTF-8. Errors are of type *ParseError. If a
// value has the wrong type, their field is the path of the value, such as configuration.rows; otherwise it is json.
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
	// encoding/json accepts invalid UTF-8 and unknown fields. Its messages for all other errors are better known.
	first := json.Unmarshal(text, into)
	wrong, typed := errors.AsType[*json.UnmarshalTypeError](first)
	switch {
	case typed:
		reason := "must be " + inWords(wrong.Type)
		if meaning, ok := meanings[wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]]; ok {
			reason += ": " + meaning
		}
		return &ParseError{Field: cmp.Or(wrong.Field, "json"), Value: wrong.Value, Reason: reason}
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

// meanings explains the fields that people write by hand.
var meanings = map[string]string{
	"board": "the cells row by row from the top left, 0 empty, 1 and 2 the players",
	"mark":  "the player to move, 1 or 2",
}

// inWords describes the JSON type that corresponds to a Go type.
func inWords(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return inWords(t.Elem())
	case reflect.Slice, reflect.Array:
		return "a list, each element " + inWords(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

// keyTwice describes the duplicate key of an object, and names its first spelling.
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

package main

import (
	"encoding/json"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/grpclog"

	"github.com/evald/evald/engine/game/gametest"
)

// logRecords parses a JSON log, each line of which must be a record.
func logRecords(t *testing.T, text string) (records []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil || r["time"] == nil || r["level"] == nil || r["msg"] == nil {
			t.Fatalf("line %q of the log is no record: %v", line, err)
		}
		records = append(records, r)
	}
	if records == nil {
		t.Fatal("the log is empty")
	}
	return records
}

// Everything that the service writes to standard error has the chosen form, from start to end: the program's notes, messages
// of libraries, and the reason for the end.
func TestServeLogForm(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
	for form, check := range map[string]func(text string){
		"json": func(text string) { logRecords(t, text) },
		"text": func(text string) {
			for line := range strings.Lines(text) {
				if !regexp.MustCompile(`^time=\S+ level=[A-Z]+[+-]?\d* msg=.`).MatchString(line) {
					t.Errorf("line %q of the log is no record", line)
				}
			}
		},
	} {
		address, text, stop := startServe(t, "--model", "seeded-2x16", "--log", form, "--log-level", "debug")
		r := gametest.Must(http.Get("http://" + address["http"] + "/v2"))(t)
		r.Body.Close()
		log.Print("of the package log")
		grpclog.Error("of gRPC")
		if status := stop(); status != exitOK {
			t.Errorf("status %d", status)
		}
		check(text.String())
		for _, says := range []string{"model seeded-2x16 is not trained", `"?soon`, "traces", "400 Bad Request", "of the package log", "of gRPC", "all requests are answered"} {
			if !regexp.MustCompile(says).MatchString(text.String()) {
				t.Errorf("%s: the log does not say %q:\n%s", form, says, text)
			}
		}
	}
	address, _, _ := startServe(t, "--backend", "uniform")
	status, out, stderr := evald(t, "", "serve", "--backend", "uniform", "--http", address["http"], "--grpc", "", "--metrics", "", "--log", "json")
	records := logRecords(t, stderr)
	last := records[len(records)-1]
	if why, _ := last["error"].(string); status != exitBadInput || out != "" || last["level"] != "ERROR" || !strings.Contains(why, "--http "+address["http"]) {
		t.Errorf("a port that is taken: status %d, errors %s", status, stderr)
	}
}

// In JSON a duration is a number of seconds, whose name has the unit. In text it is as people write
// it.
func TestServeLogDurations(t *testing.T) {
	logs := map[string]string{}
	for _, form := range []string{"text", "json"} {
		address, text, stop := startServe(t, "--backend", "uniform", "--log", form, "--log-level", "debug", "--watch", "90s", "--drain-delay", "1ms")
		r := gametest.Must(http.Get("http://" + address["http"] + "/v2"))(t)
		r.Body.Close()
		stop()
		logs[form] = text.String()
	}
	quoted := regexp.MustCompile(`"(\\.|[^"\\])*"`)
	want, got := map[string]bool{}, map[string]bool{} // message and name
	for line := range strings.Lines(logs["text"]) {
		message := strings.Trim(regexp.MustCompile(` msg=("[^"]*"|\S+)`).FindStringSubmatch(line)[1], `"`)
		for _, m := range regexp.MustCompile(` (\w+)=(\S+)`).FindAllStringSubmatch(quoted.ReplaceAllString(line, `""`), -1) {
			if _, err := time.ParseDuration(m[2]); err == nil && m[2] != "0" {
				want[message+": "+m[1]] = true
			}
		}
	}
	for _, r := range logRecords(t, logs["json"]) {
		message, _ := r["msg"].(string)
		for name, value := range r {
			seconds, number := value.(float64)
			if of, ok := strings.CutSuffix(name, "_seconds"); ok && number {
				got[message+": "+of] = true
			}
			if name == "duration_seconds" && !(seconds > 0 && seconds < 60) || name == "watch_seconds" && seconds != 90 {
				t.Errorf("%v", r)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || !got["request: duration"] || !got["configuration: watch"] || !got["not ready any more: drain_delay"] {
		t.Errorf("durations in text (-) and in JSON (+): %s\n%v", diff, got)
	}
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

// piped serves with a standard error of which the test reads only the addresses. err is the end
// that the test can read further or close.
func piped(t *testing.T, start func(stderr *os.File, args []string)) (address map[string]string, err *os.File) {
	t.Helper()
	reader, writer, fail := os.Pipe()
	gametest.OK(t, fail)
	t.Cleanup(func() { reader.Close(); writer.Close() })
	start(writer, strings.Fields("serve --backend uniform --log-level debug --http 127.0.0.1:0 --grpc 127.0.0.1:0 --metrics 127.0.0.1:0"))
	address = map[string]string{}
	for lines := bufio.NewScanner(reader); len(address) < 3 && lines.Scan(); {
		for _, m := range regexp.MustCompile(`\b(http|grpc|metrics)=(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(lines.Text(), -1) {
			address[m[1]] = m[2]
		}
	}
	if len(address) < 3 {
		t.Fatal("the service does not start")
	}
	return address, reader
}

// answers wants n requests answered, each of which is logged.
func answers(t *testing.T, address string, n int) {
	t.Helper()
	web := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	for i := range n {
		reply, err := web.Get("http://" + address + "/v2/models/uniform?" + fmt.Sprint(i))
		if err != nil {
			t.Fatalf("request %d of %d: %v", i, n, err)
		}
		_, _ = io.Copy(io.Discard, reply.Body)
		reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			t.Fatalf("request %d of %d: %s", i, n, reply.Status)
		}
	}
}

// A standard error that no program reads blocks neither requests nor the end of the service. Lines
// that find no room are counted, and the log says so once it is read again.
func TestUnreadLog(t *testing.T) {
	for name, again := range map[string]bool{"read again": true, "never read": false} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			status := make(chan int, 1)
			var stderr *os.File
			address, reader := piped(t, func(w *os.File, args []string) {
				stderr = w
				go func() { status <- run(ctx, args, streams{strings.NewReader(""), io.Discard, w}) }()
			})
			stop := sync.OnceValue(func() int { cancel(); return <-status })
			t.Cleanup(func() { reader.Close(); stop() })
			answers(t, address["http"], linesWaiting+2000) // more than the pipe and the queue can hold
			reply, err := http.Get("http://" + address["metrics"] + "/metrics")
			_, metrics := answered(t, reply, err)
			if m := regexp.MustCompile(`(?m)^evald_log_lines_dropped_total ([1-9]\d*)`).FindStringSubmatch(metrics); m == nil {
				t.Error("the metrics do not count the lines that were dropped")
			}
			if again {
				said := make(chan bool)
				go func() {
					found := false
					for lines := bufio.NewScanner(reader); lines.Scan(); {
						if regexp.MustCompile(`level=WARN msg="standard error was not read in time" lines_dropped=[1-9]`).MatchString(lines.Text()) && !found {
							found = true
							said <- true
						}
					}
					close(said)
				}()
				if !<-said {
					t.Error("the log does not say how many lines were dropped")
				}
			}
			if s := stop(); s != exitOK {
				t.Errorf("status %d", s)
			}
			stderr.Close()
		})
	}
}

// The service outlives the program that reads its standard error.
func TestBrokenLog(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGTERM")
	}
	program := beginProgram(t)
	address, reader := piped(t, func(w *os.File, args []string) {
		program.Args = append(program.Args, args...)
		program.Stderr = w
		gametest.OK(t, program.Start())
		w.Close() // the program's own is the last
	})
	reader.Close()
	answers(t, address["http"], 100)
	gametest.OK(t, program.Process.Signal(syscall.SIGTERM))
	if err := program.Wait(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
}

package main

import (
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
)

// Size and number of log files kept: enough for a bug report, small enough to
// attach.
const (
	logMegabytes = 10
	logFiles     = 3
)

// Log is the structured log: JSON to the file, text to a terminal. It holds no
// content and no keys; what slips into an error's text is masked.
type Log struct {
	*slog.Logger
	level *slog.LevelVar
	file  *logFile
}

// logFile is the log by its name: where something else moved or removed the
// file, as logrotate does, the next line starts the one that is expected there.
type logFile struct {
	lumberjack.Logger
	mu sync.Mutex
	at os.FileInfo // what was opened, nil before the first line
}

func (f *logFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at != nil {
		if now, err := os.Stat(f.Filename); err != nil || !os.SameFile(now, f.at) {
			f.at = nil
			if err := f.Logger.Close(); err != nil {
				return 0, err
			}
		}
	}
	n, err := f.Logger.Write(p)
	if f.at == nil && err == nil {
		f.at, err = os.Stat(f.Filename)
	}
	return n, err
}

// openLog starts logging to the state folder, and to console when it is not
// nil.
func openLog(p Paths, console io.Writer) *Log {
	l := &Log{level: new(slog.LevelVar), file: &logFile{Logger: lumberjack.Logger{
		// The open file is one of those kept.
		Filename: p.logFile(), MaxSize: logMegabytes, MaxBackups: logFiles - 1,
	}}}
	opts := &slog.HandlerOptions{Level: l.level, ReplaceAttr: maskAttr}
	handlers := []slog.Handler{slog.NewJSONHandler(l.file, opts)}
	if console != nil {
		handlers = append(handlers, slog.NewTextHandler(console, opts))
	}
	l.Logger = slog.New(slog.NewMultiHandler(handlers...))
	return l
}

// setLevel takes a level of the settings.
func (l *Log) setLevel(name string) {
	var v slog.Level
	if v.UnmarshalText([]byte(name)) == nil {
		l.level.Set(v)
	}
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// maskAttr masks secrets in whatever is logged, by the attribute's name and by
// its text.
func maskAttr(_ []string, a slog.Attr) slog.Attr {
	if secretName(a.Key) {
		return slog.String(a.Key, masked)
	}
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(mask(v))
	case error:
		a.Value = slog.StringValue(mask(v.Error()))
	}
	return a
}

const masked = "(masked)"

func secretName(key string) bool {
	switch strings.ToLower(key) {
	case "authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "set-cookie", "token":
		return true
	}
	return false
}

// maskRules find keys in a text: query parameters of URLs, bearer tokens, the
// secret path segment of the proxy, the users of URLs, the common key formats.
var maskRules = [...]struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`(?i)([?&](?:key|api[_-]?key|access_token|token|sig|signature|code)=)[^&\s"'\\]+`), `${1}` + masked},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]+`), `${1} ` + masked},
	{regexp.MustCompile(`(/p/)[0-9a-f]{32}\b`), `${1}` + masked},
	{regexp.MustCompile(`(://)[^/@\s"']+@`), `${1}` + masked + `@`},
	{regexp.MustCompile(`\b(?:sk|pk|rk|AIza|ghp|gsk|xai)[-_A-Za-z0-9]{12,}`), masked},
}

// mask takes keys out of a text.
func mask(s string) string {
	for _, r := range maskRules {
		s = r.find.ReplaceAllString(s, r.put)
	}
	return s
}

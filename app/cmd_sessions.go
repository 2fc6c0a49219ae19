package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/core/session"
	"holdfast/web/api"
	"holdfast/web/layout"
)

func (c *cli) sessionsCommand() *cobra.Command {
	return group("sessions", "The recorded conversations", c.listCommand(), c.showCommand(), c.exportCommand(),
		c.deleteCommand(), c.verifyCommand(), c.replayCommand())
}

// onSession wraps a command about one session. An id may be shortened as long
// as it names one session.
func (c *cli) onSession(f func(ctx context.Context, b *backend, id string) error) func(*cobra.Command, []string) error {
	return c.do(func(ctx context.Context, args []string) error {
		b, err := c.either(ctx)
		return with(b, err, func(b *backend) error {
			id, err := b.resolve(ctx, args[0])
			if err != nil {
				return err
			}
			return f(ctx, b, id)
		})
	})
}

// resolve finds the session an id or the beginning of one names.
func (b *backend) resolve(ctx context.Context, id string) (string, error) {
	var list api.SessionList
	if err := b.get(ctx, "/hf/v1/sessions?size=500", &list); err != nil {
		return "", err
	}
	var found []string
	for _, s := range list.Sessions {
		if s.ID == id {
			return id, nil
		}
		if strings.HasPrefix(s.ID, id) {
			found = append(found, s.ID)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", &Fault{Code: exitUsage, What: fmt.Sprintf("%q is the beginning of %d sessions", id, len(found)), Hint: "give more of the id"}
	}
	if list.Total <= len(list.Sessions) {
		return "", &Fault{Code: exitFailed, What: fmt.Sprintf("session %q is not in the ledger", id), Hint: "holdfast sessions list shows what there is"}
	}
	return id, nil // older than the page: let the API decide
}

func sessionPath(id string, more ...string) string {
	return "/hf/v1/sessions/" + url.PathEscape(id) + strings.Join(more, "")
}

func (c *cli) listCommand() *cobra.Command {
	var query string
	var page, size int
	cmd := &cobra.Command{Use: "list", Short: "List sessions, newest first", Args: cobra.NoArgs}
	cmd.Flags().StringVarP(&query, "query", "q", "", "only those whose title, id, model or host holds this")
	cmd.Flags().IntVar(&page, "page", 1, "page, from 1")
	cmd.Flags().IntVar(&size, "size", 50, "sessions per page, at most 500")
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		b, err := c.either(ctx)
		return with(b, err, func(b *backend) error {
			q := url.Values{"q": {query}, "page": {strconv.Itoa(page)}, "size": {strconv.Itoa(size)}}
			var list api.SessionList
			if err := b.get(ctx, "/hf/v1/sessions?"+q.Encode(), &list); err != nil {
				return err
			}
			if c.json {
				return c.printJSON(list)
			}
			return c.printSessions(list, query)
		})
	})
	return c.withJSON(cmd)
}

func (c *cli) printSessions(list api.SessionList, query string) error {
	if len(list.Sessions) == 0 {
		_, err := fmt.Fprintln(c.out, noSessions(list, query))
		return err
	}
	rows := [][]string{{"ID", "LAST SEEN", "HOST", "MODEL", "TURNS", "ELEMENTS", "SERVED BY", "TITLE"}}
	for _, s := range list.Sessions {
		rows = append(rows, []string{s.ID, ago(s.LastSeen, time.Now()), hostText(s), s.Model, count(s.Turns), count(s.Elements), string(s.Route), short(s.Title, 50)})
	}
	if err := table(c.out, rows); err != nil {
		return err
	}
	if shown := (list.Page.Page-1)*list.Size + len(list.Sessions); shown < list.Total {
		_, err := fmt.Fprintf(c.out, "%d of %d; --page %d shows more\n", len(list.Sessions), list.Total, list.Page.Page+1)
		return err
	}
	return nil
}

// noSessions says why a list is empty.
func noSessions(list api.SessionList, query string) string {
	switch {
	case list.Total > 0:
		return fmt.Sprintf("Page %d is past the end: %s.", list.Page.Page, plural(int64(list.Total), "session"))
	case query != "":
		return fmt.Sprintf("No sessions with %q in title, id, model or host.", printable(query))
	}
	return "No sessions. Point an agent at the proxy (holdfast status prints its address) and they appear here."
}

// hostText names who talks, as the inspector does.
func hostText(s session.SessionView) string {
	if s.Lane != "" && s.Lane != session.MainLane {
		return layout.Host(s.Signal) + " " + s.Lane
	}
	return layout.Host(s.Signal)
}

func (c *cli) showCommand() *cobra.Command {
	var forensics bool
	cmd := &cobra.Command{Use: "show ID", Short: "Show one session and its turns", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&forensics, "forensics", false, "also the first changed byte of each turn and its cause")
	cmd.RunE = c.onSession(func(ctx context.Context, b *backend, id string) error {
		var out struct {
			Session session.SessionView `json:"session"`
			Turns   []session.TurnView  `json:"turns"`
		}
		if err := b.get(ctx, sessionPath(id), &out.Session); err != nil {
			return err
		}
		var err error
		if out.Turns, err = b.allTurns(ctx, id); err != nil {
			return err
		}
		if c.json {
			return c.printJSON(out)
		}
		if err := table(c.out, sessionRows(out.Session)); err != nil {
			return err
		}
		fmt.Fprintln(c.out)
		return table(c.out, turnRows(out.Turns, forensics))
	})
	return c.withJSON(cmd)
}

// allTurns reads every page, newest first.
func (b *backend) allTurns(ctx context.Context, id string) (all []session.TurnView, err error) {
	for page := 1; ; page++ {
		var list api.TurnList
		if err := b.get(ctx, sessionPath(id, "/turns?size=500&page=", strconv.Itoa(page)), &list); err != nil {
			return nil, err
		}
		all = append(all, list.Turns...)
		if len(list.Turns) == 0 || len(all) >= list.Total {
			return all, nil
		}
	}
}

func sessionRows(s session.SessionView) [][]string {
	return [][]string{
		{"session", s.ID},
		{"title", short(s.Title, 70)},
		{"host", hostText(s) + " " + short(s.SessRaw, 60)},
		{"model", s.Model + " on " + s.Wire + ", window " + count(s.Window)},
		{"identity", string(s.Mode) + ", served by " + string(s.Route) + ", epoch " + count(s.Epoch)},
		{"elements", fmt.Sprintf("%s, %s live, %s folded", count(s.Elements), count(s.Live), count(s.Folded))},
		{"tokens", fmt.Sprintf("%s read, %s of them cached; %s written", count(int64(s.Tokens.Inbound)), count(int64(s.Tokens.Cached)), count(int64(s.Tokens.Output)))},
		{"cost", costText(s.Cost)},
		{"last gate", orDash(s.LastGate)},
		{"seen", "first " + ago(s.CreatedAt, time.Now()) + ", last " + ago(s.LastSeen, time.Now())},
	}
}

// costText does not call a price that nobody knows nothing.
func costText(c session.CostView) string {
	switch {
	case c.Estimate && c.Sent == 0:
		return "unknown: the price table does not have this model"
	case c.Estimate:
		return fmt.Sprintf("%.4f %s (estimate)", c.Sent, c.Currency)
	}
	return fmt.Sprintf("%.4f %s", c.Sent, c.Currency)
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func turnRows(turns []session.TurnView, forensics bool) [][]string {
	rows := [][]string{{"TURN", "PATH", "GATE", "STATUS", "IN", "OUT", "SAME PREFIX", "TOKENS", "COMPARED"}}
	if forensics {
		rows[0] = append(rows[0], "FIRST CHANGE", "AT", "CAUSE", "BY")
	}
	for _, t := range turns {
		status := strconv.Itoa(t.Status)
		if t.Truncated {
			status += " truncated"
		}
		row := []string{strconv.FormatInt(t.ID, 10), string(t.Path), orDash(t.Gate), status, bytesText(t.Bytes.In), bytesText(t.Bytes.Out),
			percentText(t.Bytes.PrefixSame, t.Bytes.Out), count(int64(t.Usage.Total())), orDash(string(t.Compared))}
		if ch := t.Change; forensics && ch != nil {
			row = append(row, "byte "+count(ch.Offset), ch.JSONPath, ch.Cause, ch.By)
		} else if forensics {
			row = append(row, "none")
		}
		rows = append(rows, row)
	}
	return rows
}

func (c *cli) exportCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{Use: "export ID", Short: "Write a session out, with every kept byte", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl or md")
	cmd.RunE = c.onSession(func(ctx context.Context, b *backend, id string) error {
		data, err := b.call(ctx, http.MethodGet, sessionPath(id, "/export?format=", url.QueryEscape(format)), nil)
		if err != nil {
			return err
		}
		_, err = c.out.Write(data)
		return err
	})
	return cmd
}

func (c *cli) deleteCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{Use: "delete ID", Short: "Delete one session from the ledger, for good", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = c.onSession(func(ctx context.Context, b *backend, id string) error {
		var s session.SessionView
		if err := b.get(ctx, sessionPath(id), &s); err != nil {
			return err
		}
		what := fmt.Sprintf("session %s (%s, %q)", s.ID, plural(s.Turns, "turn"), printable(short(s.Title, 50)))
		if err := c.confirm(yes, "Delete "+what+" for good?"); err != nil {
			return err
		}
		if _, err := b.call(ctx, http.MethodDelete, sessionPath(id), nil); err != nil {
			return err
		}
		_, err := fmt.Fprintln(c.out, "Deleted "+what+".")
		return err
	})
	return cmd
}

// confirm asks on a terminal; without one, or with one that is at its end, only
// --yes will do.
func (c *cli) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	nobody := &Fault{Code: exitRefused, What: "nothing was done: there is nobody to ask", Hint: "add --yes"}
	if !c.terminal() {
		return nobody
	}
	fmt.Fprint(c.err, question+" [y/N] ")
	answer, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil {
		fmt.Fprintln(c.err)
		return nobody
	}
	if !strings.EqualFold(strings.TrimSpace(answer), "y") {
		return &Fault{Code: exitRefused, What: "nothing was done"}
	}
	return nil
}

func (c *cli) verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify [ID]", Short: "Render ledgers again and check every sum", Args: cobra.MaximumNArgs(1),
		Long: "Checks one session, or all of them: every row and blob against its sum, and the\nrendered list against the recorded one.",
	}
	cmd.RunE = c.do(func(ctx context.Context, args []string) error {
		b, err := c.either(ctx)
		return with(b, err, func(b *backend) error {
			ids, err := b.named(ctx, args)
			if err != nil {
				return err
			}
			return c.verifyAll(ctx, b, ids)
		})
	})
	return c.withJSON(cmd)
}

// named are the sessions a command is about: the one given, or all.
func (b *backend) named(ctx context.Context, args []string) (ids []string, err error) {
	if len(args) > 0 {
		id, err := b.resolve(ctx, args[0])
		return []string{id}, err
	}
	for page := 1; ; page++ {
		var list api.SessionList
		if err := b.get(ctx, "/hf/v1/sessions?size=500&page="+strconv.Itoa(page), &list); err != nil {
			return nil, err
		}
		for _, s := range list.Sessions {
			ids = append(ids, s.ID)
		}
		if len(list.Sessions) == 0 || len(ids) >= list.Total {
			return ids, nil
		}
	}
}

func (c *cli) verifyAll(ctx context.Context, b *backend, ids []string) error {
	bad, results := 0, []api.Verification{}
	rows := [][]string{{"SESSION", "ELEMENTS", "ROWS", "TURNS", "RESULT"}}
	for _, id := range ids {
		data, err := b.call(ctx, http.MethodPost, sessionPath(id, "/verify"), nil)
		if err != nil {
			return err
		}
		var v api.Verification
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		result := "sound"
		if v.Served != "" {
			result += ", served by the " + v.Served
		}
		if !v.Sound {
			bad++
			result = strings.Join(v.Faults, "; ")
		}
		results = append(results, v)
		rows = append(rows, []string{v.Session, count(int64(v.Elements)), count(int64(v.Rows)), count(int64(v.Turns)), result})
	}
	var err error
	if c.json {
		err = c.printJSON(results)
	} else {
		err = table(c.out, rows)
	}
	if bad > 0 {
		err = errors.Join(err, &Fault{Code: exitFailed, What: fmt.Sprintf("%d of %d sessions are not sound", bad, len(ids)),
			Hint: "they are served by the full path; holdfast doctor --bundle makes a report"})
	}
	return err
}

func (c *cli) replayCommand() *cobra.Command {
	var part string
	cmd := &cobra.Command{
		Use: "replay TURN", Short: "Rebuild the exact bytes of a turn", Args: cobra.ExactArgs(1),
		Long: "Writes the decoded bytes of one model call to standard output, rebuilt from the ledger\nand checked by hash. What was not kept says so.",
	}
	cmd.Flags().StringVar(&part, "part", "outbound", "inbound, outbound or response")
	cmd.RunE = c.do(func(ctx context.Context, args []string) error {
		if _, err := strconv.ParseInt(args[0], 10, 64); err != nil {
			return &Fault{Code: exitUsage, What: fmt.Sprintf("%q is not the number of a turn", args[0]), Hint: "holdfast sessions show ID lists them"}
		}
		if part != "inbound" && part != "outbound" && part != "response" {
			return &Fault{Code: exitUsage, What: fmt.Sprintf("there is no part %q of a turn", part), Hint: "inbound, outbound or response"}
		}
		b, err := c.either(ctx)
		return with(b, err, func(b *backend) error {
			data, err := b.call(ctx, http.MethodGet, "/hf/v1/turns/"+args[0]+"/"+part, nil)
			var f *Fault
			if errors.As(err, &f) && f.Problem == "unknown" {
				f.What, f.Hint = "turn "+args[0]+" is not in the ledger", "holdfast sessions show ID lists the turns of a session"
			}
			if err != nil {
				return err
			}
			_, err = c.out.Write(data)
			return err
		})
	})
	return cmd
}

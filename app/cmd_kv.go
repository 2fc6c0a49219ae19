package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/core/config"
	"holdfast/core/kv"
	"holdfast/core/tier"
	"holdfast/web/api"
)

func (c *cli) kvCommand() *cobra.Command {
	return group("kv", "The engine's state kept on disk", c.kvStatusCommand(), c.kvPruneCommand(), c.kvClearCommand(), c.kvVerifyCommand())
}

// kvFlags are those the kv commands share.
type kvFlags struct {
	model       string
	target      string
	dryRun, yes bool
}

func (f *kvFlags) addModel(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.model, "model", "", "only this model, as the inventory of kv status names it")
}

func (f *kvFlags) addDeleting(cmd *cobra.Command) {
	f.addModel(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be done, and do nothing")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
}

// change is the body of a request. An identity that was given is checked before
// anything is asked: a blank one would mean every model.
func (f *kvFlags) change(cmd *cobra.Command) (api.KVChange, error) {
	out := api.KVChange{DryRun: f.dryRun}
	if cmd.Flags().Changed("model") {
		id, err := kv.ParseModelIdentity(f.model)
		if err != nil {
			return out, &Fault{Code: exitRefused, What: fmt.Sprintf("--model %q names no model: %s", f.model, strings.TrimPrefix(err.Error(), "kv: ")),
				Hint: "holdfast kv status lists the models; leave --model out to mean all of them"}
		}
		text := id.String()
		out.ModelIdentity = &text
	}
	if f.target == "" {
		return out, nil
	}
	size, err := config.ParseSize(f.target)
	if err != nil {
		return out, &Fault{Code: exitUsage, What: fmt.Sprintf("--target %q is not a size", f.target), Hint: `write digits and KiB, MiB, GiB or TiB, such as "20GiB"`}
	}
	bytes := kv.Bytes(size)
	out.TargetBytes = &bytes
	return out, nil
}

func (c *cli) kvStatusCommand() *cobra.Command {
	var f kvFlags
	cmd := &cobra.Command{Use: "status", Short: "Room, activity and what is stored", Args: cobra.NoArgs}
	f.addModel(cmd)
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		want, err := f.change(cmd)
		if err != nil {
			return err
		}
		b, err := c.either(ctx)
		return with(b, err, func(b *backend) error {
			var s kv.Status
			if err := b.get(ctx, "/hf/v1/kv", &s); err != nil {
				return err
			}
			onlyModel(&s, want.ModelIdentity)
			if c.json {
				return c.printJSON(s)
			}
			return c.printKV(s)
		})
	})
	return c.withJSON(cmd)
}

// onlyModel leaves one model in the inventory.
func onlyModel(s *kv.Status, model *string) {
	if model == nil {
		return
	}
	kept := []kv.StatusEntry{}
	for _, e := range s.Inventory {
		if e.ModelIdentity.String() == *model {
			kept = append(kept, e)
		}
	}
	s.Inventory = kept
}

func (c *cli) printKV(s kv.Status) error {
	if err := table(c.out, kvRows(s)); err != nil {
		return err
	}
	if len(s.Inventory) == 0 {
		return nil
	}
	rows := [][]string{{"MODEL", "TOKENS", "SIZE", "ALONE", "LAST USED", "SESSIONS"}}
	for _, e := range s.Inventory {
		rows = append(rows, []string{e.ModelIdentity.String(), count(int64(e.Tokens)), bytesText(int64(e.Bytes)), bytesText(int64(e.ExclusiveBytes)),
			ago(e.LastUsed.UnixMilli(), time.Now()), strings.Join(e.Sessions, " ")})
	}
	fmt.Fprintln(c.out)
	return table(c.out, rows)
}

// kvDiskText is the room on the disk. While the tier is off nobody looks.
func kvDiskText(s kv.Status) string {
	stays := bytesText(int64(s.Usage.ReserveBytes)) + " stay free"
	if s.Effective.State == kv.StateOff {
		return stays
	}
	return bytesText(int64(s.Usage.FilesystemAvailableBytes)) + " free, " + stays
}

// kvRows is what a person reads of a KV status.
func kvRows(s kv.Status) [][]string {
	u, a := s.Usage, s.Activity
	misses := map[string]int64{}
	for reason, n := range a.Misses {
		misses[string(reason)] = n
	}
	rows := [][]string{
		{"state", kvStateText(s)},
		{"folder", s.Configured.Directory},
		{"used", fmt.Sprintf("%s of %s in %s states", bytesText(int64(u.UsedBytes)), bytesText(int64(u.BudgetBytes)), count(int64(u.Manifests)))},
		{"disk", kvDiskText(s)},
		{"restored", fmt.Sprintf("%s, about %s of prefill saved; %s failed", count(a.RestoresOK), (time.Duration(a.SecondsSavedEstimate*1000) * time.Millisecond).Round(100*time.Millisecond), count(a.RestoreFailures))},
		{"not restored", countsText(misses)},
		{"written", fmt.Sprintf("%s states, %s; %s evicted", count(a.Writes), bytesText(int64(a.BytesWritten)), count(a.Evictions))},
	}
	if u.QuarantinedObjects > 0 || a.CorruptEntries > 0 {
		rows = append(rows, []string{"damaged", fmt.Sprintf("%s found, %d files kept aside", count(a.CorruptEntries), u.QuarantinedObjects)})
	}
	for _, key := range s.Effective.PendingRestart {
		rows = append(rows, []string{"after a restart", key + " takes effect"})
	}
	for _, dir := range s.Effective.StalePaths {
		rows = append(rows, []string{"left behind", dir + " still holds an earlier cache; delete the folder if it is not needed"})
	}
	for _, w := range s.Effective.Warnings {
		rows = append(rows, []string{"note", w})
	}
	if a.LastError != "" {
		rows = append(rows, []string{"last error", a.LastError})
	}
	return rows
}

// kvStateText says a state with what it means.
func kvStateText(s kv.Status) string {
	means := map[kv.TierState]string{
		kv.StateOff:              "off: nothing is kept on disk (holdfast config set kv.disk.mode auto turns it on)",
		kv.StateStarting:         "starting: it reads what is stored",
		kv.StateActive:           "active",
		kv.StateReadOnlyLowSpace: "reading only: the disk is too full to write; it goes on by itself once there is room",
		kv.StatePruningToBudget:  "making room",
		kv.StateDegraded:         "degraded: sessions are served, from a cold engine where need be",
	}[s.Effective.State]
	if r := s.Effective.Reason; r != "" && r != string(s.Effective.State) {
		means += " (" + strings.ReplaceAll(r, "_", " ") + ")"
	}
	return means
}

func (c *cli) kvPruneCommand() *cobra.Command {
	var f kvFlags
	cmd := &cobra.Command{
		Use: "prune", Short: "Delete the least useful states until a size is reached", Args: cobra.NoArgs,
		Long: "Without --target, down to 85 % of the budget. The newest state and those in use stay.",
	}
	f.addDeleting(cmd)
	cmd.Flags().StringVar(&f.target, "target", "", "size to come down to, such as 20GiB")
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		return c.deleteKV(ctx, cmd, &f, "prune", http.MethodPost, "/hf/v1/kv/prune")
	})
	return c.withJSON(cmd)
}

func (c *cli) kvClearCommand() *cobra.Command {
	var f kvFlags
	cmd := &cobra.Command{Use: "clear", Short: "Delete every stored state", Args: cobra.NoArgs}
	f.addDeleting(cmd)
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		return c.deleteKV(ctx, cmd, &f, "clear", http.MethodDelete, "/hf/v1/kv")
	})
	return c.withJSON(cmd)
}

// deleteKV prunes or clears: it shows what would go, asks, and does it.
func (c *cli) deleteKV(ctx context.Context, cmd *cobra.Command, f *kvFlags, verb, method, path string) error {
	change, err := f.change(cmd)
	if err != nil {
		return err
	}
	b, err := c.either(ctx)
	return with(b, err, func(b *backend) error {
		if verb == "prune" && change.TargetBytes == nil {
			if err := b.needTarget(ctx); err != nil {
				return err
			}
		}
		look := change
		look.DryRun = true
		plan, err := b.changeKV(ctx, method, path, look)
		if err != nil {
			return err
		}
		if !f.dryRun {
			question := fmt.Sprintf("Delete %d states, %s, from the KV cache for good?", plan.Plan.Manifests, bytesText(int64(plan.FreedBytes)))
			if err := c.confirm(f.yes, question); err != nil {
				return err
			}
			if plan, err = b.changeKV(ctx, method, path, change); err != nil {
				return err
			}
		}
		return c.printKVChange(verb, plan)
	})
}

func (b *backend) changeKV(ctx context.Context, method, path string, change api.KVChange) (out api.KVChanged, err error) {
	data, err := b.call(ctx, method, path, change)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(data, &out)
}

// needTarget refuses a prune that has no size to come down to: the command is
// right, the settings do not allow it.
func (b *backend) needTarget(ctx context.Context) error {
	var s kv.Status
	if err := b.get(ctx, "/hf/v1/kv", &s); err != nil {
		return err
	}
	if s.Usage.BudgetBytes > 0 || s.Effective.State == kv.StateOff {
		return nil
	}
	return &Fault{Code: exitRefused, What: tier.ErrNoTarget.What, Hint: tier.ErrNoTarget.Hint}
}

func (c *cli) printKVChange(verb string, out api.KVChanged) error {
	if c.json {
		return c.printJSON(out)
	}
	if out.DryRun && len(out.Plan.Steps) > 0 {
		rows := [][]string{{"STEP", "WHAT", "TOKENS", "FREES", "THEN USED", "WHY"}}
		for _, s := range out.Plan.Steps {
			rows = append(rows, []string{string(s.Kind), short(s.ID, 17), count(int64(s.Tokens)), bytesText(int64(s.FreedBytes - s.WriteBytes)), bytesText(int64(s.UsedBytes)), s.Why})
		}
		if err := table(c.out, rows); err != nil {
			return err
		}
	}
	said := map[string]string{"prune": "Pruned", "clear": "Cleared"}[verb]
	if out.DryRun {
		said = "Nothing was done; it would be"
	}
	_, err := fmt.Fprintf(c.out, "%s: %d states, %s. The cache then takes %s.\n", said, out.Plan.Manifests, bytesText(int64(out.FreedBytes)), bytesText(int64(out.Plan.AfterBytes)))
	if err == nil && verb == "prune" && !out.Plan.Reached {
		_, err = fmt.Fprintf(c.out, "The target of %s was not reached: what is left is in use or the newest.\n", bytesText(int64(out.Plan.TargetBytes)))
	}
	return err
}

func (c *cli) kvVerifyCommand() *cobra.Command {
	var f kvFlags
	cmd := &cobra.Command{
		Use: "verify", Short: "Read everything back and check every digest", Args: cobra.NoArgs,
		Long: "What is damaged is taken out of use; the engine computes it again when it is needed.",
	}
	f.addModel(cmd)
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		change, err := f.change(cmd)
		if err != nil {
			return err
		}
		b, err := c.either(ctx)
		return with(b, err, func(b *backend) error {
			data, err := b.call(ctx, http.MethodPost, "/hf/v1/kv/verify", change)
			if err != nil {
				return err
			}
			return c.printKVVerification(data)
		})
	})
	return c.withJSON(cmd)
}

func (c *cli) printKVVerification(data []byte) error {
	var v api.KVVerification
	err := json.Unmarshal(data, &v)
	if err != nil {
		return err
	}
	if c.json {
		err = c.printJSON(v)
	} else {
		_, err = fmt.Fprintf(c.out, "%s states: %s blocks, %s read back from %d files.\n", count(int64(v.Entries)), count(int64(v.Blocks)), bytesText(int64(v.Bytes)), v.Packs)
	}
	if !v.Sound {
		err = errors.Join(err, &Fault{Code: exitFailed, What: fmt.Sprintf("%d blocks were damaged and %d states were taken out of use", v.BadBlocks, v.Removed),
			Hint: "nothing wrong was served; a disk that keeps doing this should be looked at"})
	}
	return err
}

package stack_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// dashboard has the parts of Grafana's JSON that the tests read.
type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  struct{ Type, UID string }
	GridPos     struct{ X, Y, W, H int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []target
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                struct{ Type, UID string }
}

func mustReadDashboard(t testing.TB) (d dashboard) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(mustRead(t, "grafana", "hookladder.json")), &d))
	return d
}

// grafana has the values that Grafana puts in place of its variables, with Prometheus' interval
// of 15 s and all jobs and instances.
var grafana = strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*")

func parse(expr string) (parser.Expr, error) {
	return parser.NewParser(parser.Options{}).ParseExpr(grafana.Replace(expr))
}

// metrics are the names of the metrics that an expression selects.
func metrics(expr parser.Expr) (names []string) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	return names
}

// scaled divides each range of an expression.
func scaled(expr parser.Expr, by time.Duration) string {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if m, ok := node.(*parser.MatrixSelector); ok {
			m.Range /= by
		}
		return nil
	})
	return expr.String()
}

func TestEachPanelHasWhatAReaderNeeds(t *testing.T) {
	t.Parallel()
	d := mustReadDashboard(t)
	require.Equal(t, 39, d.SchemaVersion, "Grafana 10.4 and later read it")
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	require.Equal(t, []string{"datasource", "job", "instance"}, variables)
	ids, titles, rows := map[int]bool{}, map[string]bool{}, 0
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "%s: two panels have the id %d", p.Title, p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		if p.Type == "row" {
			rows++
			titles = map[string]bool{}
			continue
		}
		require.False(t, titles[p.Title], "%s: two panels of a row have one title", p.Title)
		titles[p.Title] = true
		require.NotEmpty(t, p.Targets, p.Title)
		require.NotEmpty(t, p.FieldConfig.Defaults.Unit, "%s: unit", p.Title)
		require.True(t, strings.HasSuffix(p.Description, "."), "%s: description", p.Title)
		for _, of := range p.Targets {
			require.NotEmpty(t, of.LegendFormat, "%s: legend", p.Title)
			require.NotEmpty(t, of.RefID, p.Title)
			require.Equal(t, "${datasource}", of.Datasource.UID, p.Title)
		}
	}
	require.Equal(t, 9, rows)
}

// No panel covers another one.
func TestThePanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	taken := map[[2]int]string{}
	for _, p := range mustReadDashboard(t).Panels {
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], "%s covers it", p.Title)
				taken[at] = p.Title
			}
		}
	}
}

// Prometheus' own parser accepts each expression. A renamed metric or label must not empty a panel.
func TestEachExpressionNamesMetricsAndLabelsThatExist(t *testing.T) {
	t.Parallel()
	labels := exported(t)
	used := map[string]bool{}
	for _, p := range mustReadDashboard(t).Panels {
		for _, of := range p.Targets {
			expr, err := parse(of.Expr)
			require.NoError(t, err, "%s: %s", p.Title, of.Expr)
			var known []string
			for _, name := range metrics(expr) {
				name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
				require.Contains(t, labels, name, "%s: %s", p.Title, of.Expr)
				known = append(known, labels[name]...)
				used[name] = true
			}
			require.Empty(t, unknownLabels(expr, append(known, "job", "instance", "le")), "%s: %s", p.Title, of.Expr)
			for _, m := range regexp.MustCompile(`\{\{(.*?)\}\}`).FindAllStringSubmatch(of.LegendFormat, -1) {
				require.Contains(t, append(known, "job", "instance"), m[1], "%s: legend", p.Title)
			}
		}
	}
	for name := range labels {
		require.True(t, used[name], "no panel shows %s", name)
	}
}

// exported are the metrics of the program with their labels, from the table in the documents, which
// a test of the program compares with its output.
func exported(t testing.TB) map[string][]string {
	t.Helper()
	labels := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(hookladder_[a-z_]+)(?:\\{(.*?)\\})?` \\|").FindAllStringSubmatch(mustRead(t, "docs", "metrics.md"), -1) {
		labels[m[1]] = strings.Split(m[2], ",")
	}
	require.NotEmpty(t, labels)
	return labels
}

// unknownLabels are the labels that an expression matches or keeps, and no metric of it has.
func unknownLabels(expr parser.Expr, known []string) (found []string) {
	check := func(names ...string) {
		for _, name := range names {
			if name != "__name__" && !slices.Contains(known, name) {
				found = append(found, name)
			}
		}
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			for _, m := range n.LabelMatchers {
				check(m.Name)
			}
		case *parser.AggregateExpr:
			check(n.Grouping...)
		}
		return nil
	})
	return found
}

func TestAnUnknownLabelIsFound(t *testing.T) {
	t.Parallel()
	expr, err := parse(`sum by (job, kind) (rate(hookladder_dead_total{job=~"$job",why="x"}[$__rate_interval]))`)
	require.NoError(t, err)
	require.Equal(t, []string{"kind", "why"}, unknownLabels(expr, []string{"job", "reason"}))
	require.Equal(t, `sum by (job, kind) (rate(hookladder_dead_total{job=~".*",why="x"}[2s]))`, scaled(expr, 30))
	_, err = parse("sum by job (hookladder_dead_total")
	require.Error(t, err)
}

// Grafana finds its data source and the dashboard at the paths of compose.yaml.
func TestGrafanaIsProvisioned(t *testing.T) {
	t.Parallel()
	p := mustLoad(t)
	var sources struct {
		Datasources []struct {
			UID, Type, URL string
			IsDefault      bool `yaml:"isDefault"`
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(mustRead(t, "grafana", "provisioning", "datasources", "hookladder.yaml")), &sources))
	require.Len(t, sources.Datasources, 1)
	require.Equal(t, "prometheus", sources.Datasources[0].Type)
	require.Equal(t, "http://prometheus:9090", sources.Datasources[0].URL)
	require.True(t, sources.Datasources[0].IsDefault, "the variable of the dashboard begins with it")
	require.Contains(t, p.Services, "prometheus")

	var folders struct {
		Providers []struct{ Options struct{ Path string } }
	}
	require.NoError(t, yaml.Unmarshal([]byte(mustRead(t, "grafana", "provisioning", "dashboards", "hookladder.yaml")), &folders))
	require.Len(t, folders.Providers, 1)
	var targets []string
	for _, v := range p.Services["grafana"].Volumes {
		targets = append(targets, v.Target)
	}
	require.Contains(t, targets, folders.Providers[0].Options.Path+"/hookladder.json")
	require.Contains(t, targets, "/etc/grafana/provisioning")
}

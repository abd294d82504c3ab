#include "muxd/doors/https/metrics.h"
#include "base/clock.h"
#include "base/metric.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/hub/core/hub.h"

#include <stdio.h>

/* Statuses of http_reason(), a change to another protocol, and what libwebsockets answers by itself. */
static const int statuses[METRIC_STATUSES - 1] = {101, 200, 201, 202, 204, 206, 304, 400, 401, 403, 404, 405,
						  406, 408, 409, 411, 412, 413, 414, 415, 416, 417, 423, 426,
						  429, 431, 499, 500, 501, 502, 503, 504, 505, 507};

/* Upper ends in milliseconds; a round may take minutes. */
static const uint64_t bucket_ms[METRIC_BUCKETS] = {1, 5, 10, 50, 100, 500, 1000, 5000, 10000, 30000, 60000};

void rest_metrics_count(struct rest_metrics *m, const struct route *r, int status, uint64_t duration_ns)
{
	size_t row = r ? (size_t)(r - m->routes) : m->nroutes, s = 0, b = 0;

	while (s < METRIC_STATUSES - 1 && statuses[s] != status)
		s++;
	while (b < METRIC_BUCKETS && duration_ns > bucket_ms[b] * NS_PER_MS)
		b++;
	m->requests[row][s]++;
	m->buckets[row][b]++;
	m->duration_ns[row] += duration_ns;
}

static int head(struct buf *out, const char *name, const char *type, const char *help)
{
	return buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

struct metric_row {
	const char *name, *type, *help;
	uint64_t value;
};

static int metrics_rows(struct buf *out, const struct metric_row *rows, size_t n)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = head(out, rows[i].name, rows[i].type, rows[i].help);
		if (rc == 0)
			rc = buf_printf(out, "%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
	}
	return rc;
}

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* A label's value: backslash, quote and line end are escaped. */
static int label(struct buf *out, const char *s)
{
	int rc = 0;

	for (; rc == 0 && *s; s++) {
		if (*s == '\\' || *s == '"')
			rc = buf_printf(out, "\\%c", *s);
		else if (*s == '\n')
			rc = buf_append_str(out, "\\n");
		else
			rc = buf_append(out, s, 1);
	}
	return rc;
}

static int labelled(struct buf *out, const char *name, const char *key, const char *value, uint64_t n)
{
	int rc = buf_printf(out, "%s{%s=\"", name, key);

	if (rc == 0)
		rc = label(out, value);
	return rc ? rc : buf_printf(out, "\"} %llu\n", (unsigned long long)n);
}

static int row_labels(const struct rest_metrics *m, struct buf *out, size_t row)
{
	const struct route *r = row < m->nroutes ? &m->routes[row] : NULL;
	int rc = buf_printf(out, "method=\"%s\",route=\"", r ? http_method_name(r->method) : "any");

	if (rc == 0)
		rc = label(out, r ? r->pattern : "none");
	return rc ? rc : buf_append_str(out, "\"");
}

static int requests_render(const struct rest_metrics *m, struct buf *out)
{
	int rc = head(out, "muxd_api_requests_total", "counter", "API requests answered, by route and status.");

	for (size_t row = 0; rc == 0 && row <= m->nroutes; row++) {
		for (size_t s = 0; rc == 0 && s < METRIC_STATUSES; s++) {
			if (!m->requests[row][s])
				continue;
			rc = buf_append_str(out, "muxd_api_requests_total{");
			if (rc == 0)
				rc = row_labels(m, out, row);
			if (rc == 0)
				rc =
				    buf_printf(out, ",status=\"%d\"} %llu\n", s < METRIC_STATUSES - 1 ? statuses[s] : 0,
					       (unsigned long long)m->requests[row][s]);
		}
	}
	return rc;
}

static int histogram_line(const struct rest_metrics *m, struct buf *out, size_t row, const char *suffix, const char *le,
			  const char *value)
{
	int rc = buf_printf(out, "muxd_api_request_duration_seconds_%s{", suffix);

	if (rc == 0)
		rc = row_labels(m, out, row);
	if (rc == 0 && le)
		rc = buf_printf(out, ",le=\"%s\"", le);
	return rc ? rc : buf_printf(out, "} %s\n", value);
}

static int histogram_row(const struct rest_metrics *m, size_t row, struct buf *out)
{
	char le[32], value[40];
	uint64_t sum = 0;
	int rc = 0;

	for (size_t b = 0; b < METRIC_BUCKETS + 1; b++)
		sum += m->buckets[row][b];
	if (!sum)
		return 0;
	sum = 0;
	for (size_t b = 0; rc == 0 && b <= METRIC_BUCKETS; b++) {
		sum += m->buckets[row][b];
		if (b < METRIC_BUCKETS)
			snprintf(le, sizeof(le), "%llu.%03llu", (unsigned long long)(bucket_ms[b] / 1000),
				 (unsigned long long)(bucket_ms[b] % 1000));
		else
			snprintf(le, sizeof(le), "+Inf");
		snprintf(value, sizeof(value), "%llu", (unsigned long long)sum);
		rc = histogram_line(m, out, row, "bucket", le, value);
	}
	snprintf(value, sizeof(value), "%llu.%09llu", (unsigned long long)(m->duration_ns[row] / NS_PER_SEC),
		 (unsigned long long)(m->duration_ns[row] % NS_PER_SEC));
	if (rc == 0)
		rc = histogram_line(m, out, row, "sum", NULL, value);
	snprintf(value, sizeof(value), "%llu", (unsigned long long)sum);
	return rc ? rc : histogram_line(m, out, row, "count", NULL, value);
}

static int routed_render(const struct rest_metrics *m, struct buf *out)
{
	static const char *const classes[] = {NULL, NULL, "2xx", "3xx", "4xx", "5xx"};
	const struct metric_row rows[] = {
	    {"muxd_routed_received_bytes_total", "counter", "Bytes from clients to ports in sandboxes.",
	     m->routed_bytes_in},
	    {"muxd_routed_sent_bytes_total", "counter", "Bytes from ports in sandboxes to clients.",
	     m->routed_bytes_out},
	};
	int rc = head(out, "muxd_routed_requests_total", "counter", "Requests to ports in sandboxes, by status.");

	for (int i = 2; rc == 0 && i < 6; i++)
		rc = labelled(out, "muxd_routed_requests_total", "status", classes[i], m->routed[i]);
	return rc ? rc : metrics_rows(out, rows, COUNT(rows));
}

void rest_metrics_routed(struct rest_metrics *m, int status)
{
	/* an upgrade is a success */
	m->routed[status < 200 ? 2 : status < 600 ? status / 100 : 5]++;
}

static int door_render(const struct rest_metrics *m, struct buf *out)
{
	const struct metric_row before[] = {
	    {"muxd_api_connections", "gauge", "API connections open now.", m->connections},
	    {"muxd_api_connections_accepted_total", "counter", "API connections accepted.", m->accepted},
	};
	const struct metric_row behind[] = {
	    {"muxd_api_made_room_total", "counter", "API connections of nobody known that were ended for newcomers.",
	     m->made_room},
	    {"muxd_api_delayed_total", "counter", "Refusals of a token that were held back.", m->delayed},
	    {"muxd_api_timeouts_total", "counter", "API connections ended by a timeout.", m->timeouts},
	    {"muxd_api_clients_gone_total", "counter", "Clients that left before their answer.", m->clients_gone},
	    {"muxd_api_malformed_total", "counter", "Connections that did not speak HTTP.", m->malformed},
	    {"muxd_api_received_bytes_total", "counter", "Bytes of request bodies.", m->bytes_received},
	    {"muxd_api_sent_bytes_total", "counter", "Bytes of responses.", m->bytes_sent},
	};
	int rc = metrics_rows(out, before, COUNT(before));

	if (rc == 0)
		rc = head(out, "muxd_api_refused_total", "counter", "API connections refused by a limit.");
	if (rc == 0)
		rc = labelled(out, "muxd_api_refused_total", "limit", "connections", m->refused_total);
	if (rc == 0)
		rc = labelled(out, "muxd_api_refused_total", "limit", "per_address", m->refused_address);
	return rc ? rc : metrics_rows(out, behind, COUNT(behind));
}

static int sessions_render(const struct hub_stats *s, struct buf *out)
{
	const struct metric_row rows[] = {
	    {"muxd_attachments", "gauge", "Clients attached to sessions.", s->attachments_live},
	    {"muxd_input_bytes_total", "counter", "Bytes of input journaled.", s->bytes_in},
	    {"muxd_output_bytes_total", "counter", "Bytes of output journaled.", s->bytes_out},
	};
	int rc = head(out, "muxd_sessions_opened_total", "counter", "Sessions opened, by kind.");

	for (int k = 0; rc == 0 && k < SESSION_KINDS; k++)
		rc = labelled(out, "muxd_sessions_opened_total", "kind", session_kind_name((enum session_kind)k),
			      s->sessions_opened[k]);
	if (rc == 0)
		rc = head(out, "muxd_sessions", "gauge", "Sessions that have not ended, by kind.");
	for (int k = 0; rc == 0 && k < SESSION_KINDS; k++)
		rc = labelled(out, "muxd_sessions", "kind", session_kind_name((enum session_kind)k),
			      s->sessions_live[k]);
	if (rc == 0)
		rc = head(out, "muxd_rounds_ended_total", "counter", "Rounds that ended, by cause.");
	for (int c = EXIT_EXITED; rc == 0 && c <= EXIT_IDLE_TIMEOUT; c++)
		rc = labelled(out, "muxd_rounds_ended_total", "cause", exit_cause_name((enum exit_cause)c),
			      s->rounds_by_cause[c]);
	return rc ? rc : metrics_rows(out, rows, COUNT(rows));
}

static int record_render(const struct hub_stats *s, struct buf *out)
{
	const struct metric_row rows[] = {
	    {"muxd_ring_used_bytes", "gauge", "Bytes in the journal ring that are not yet durable.", s->ring_used},
	    {"muxd_ring_size_bytes", "gauge", "Size of the journal ring.", s->ring_size},
	    {"muxd_ring_stalls_total", "counter", "Times that a full ring paused output.", s->ring_stalls},
	    {"muxd_durable_lag_bytes", "gauge", "Bytes journaled and not yet durable.", s->durable_lag},
	};
	int rc = metrics_rows(out, rows, COUNT(rows));

	if (rc == 0)
		rc = head(out, "muxd_record_state", "gauge", "1 for the state that the record is in.");
	for (int r = RECORD_OK; rc == 0 && r <= RECORD_FAILED; r++)
		rc = labelled(out, "muxd_record_state", "state", hub_record_state_name((enum hub_record_state)r),
			      s->record == (enum hub_record_state)r);
	return rc;
}

static int control_render(const struct hub *h, struct buf *out)
{
	enum hub_control_state now = hub_control_state(h);
	int rc = head(out, "muxd_control_state", "gauge", "1 for the state that the control database is in.");

	for (int s = CONTROL_OK; rc == 0 && s <= CONTROL_FAILED; s++)
		rc = labelled(out, "muxd_control_state", "state", hub_control_state_name((enum hub_control_state)s),
			      now == (enum hub_control_state)s);
	return rc;
}

static int hub_render(struct hub *h, struct buf *out)
{
	struct hub_stats s = {0};
	int rc;

	hub_stats(h, &s);
	const struct metric_row rows[] = {
	    {"muxd_auth_ok_total", "counter", "Grants accepted.", s.auth_ok},
	    {"muxd_auth_failed_total", "counter", "Grants refused.", s.auth_failed},
	    {"muxd_sandboxes_up", "gauge", "Sandboxes with a live link.", s.sandboxes_up},
	    {"muxd_links_down", "gauge", "Sandboxes whose link is down.", s.links_down},
	};
	rc = sessions_render(&s, out);
	if (rc == 0)
		rc = metrics_rows(out, rows, COUNT(rows));
	if (rc == 0)
		rc = hub_work_metrics(h, out);
	if (rc == 0)
		rc = control_render(h, out);
	return rc ? rc : record_render(&s, out);
}

static int metrics_render(const struct rest_metrics *m, struct hub *h, struct buf *out)
{
	int rc = head(out, "muxd_build_info", "gauge", "1, with the version.");
	json_t *more;

	if (rc == 0)
		rc = labelled(out, "muxd_build_info", "version", MUXD_VERSION, 1);
	if (rc == 0)
		rc = requests_render(m, out);
	if (rc == 0)
		rc = head(out, "muxd_api_request_duration_seconds", "histogram",
			  "Time from the request's head to its answer.");
	for (size_t row = 0; rc == 0 && row <= m->nroutes; row++)
		rc = histogram_row(m, row, out);
	if (rc == 0)
		rc = door_render(m, out);
	if (rc == 0)
		rc = routed_render(m, out);
	if (rc == 0)
		rc = hub_render(h, out);
	more = rc == 0 ? hub_metrics(h) : NULL;
	if (more)
		rc = metric_render(more, out);
	json_decref(more);
	return rc;
}

void rest_metrics_show(struct http_exchange *x)
{
	int rc = x->metrics ? metrics_render(x->metrics, x->hub, &x->out) : ERR_UNAVAILABLE;

	if (rc)
		http_reply_error(x, rc, NULL);
	else
		http_reply_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", "", 0);
}

#include "storage_server/work/cpu_market.h"

#include "storage_server/tuning.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

struct sluice_cpu_market sluice_cpu_market_init(uint64_t now_ns, unsigned num_workers)
{
    return (struct sluice_cpu_market){
        .price = sluice_cpu_price_init(now_ns),
        .num_workers = num_workers,
        .was_empty = true, /* until the first job comes */
        .counted_ns = now_ns,
    };
}

void sluice_cpu_market_join(struct sluice_cpu_market *market,
                            struct sluice_cpu_market_client *client)
{
    client->next = market->clients;
    client->link = &market->clients;
    if (client->next)
        client->next->link = &client->next;
    market->clients = client;
}

void sluice_cpu_market_leave(struct sluice_cpu_market *market,
                             struct sluice_cpu_market_client *client)
{
    (void)market;
    assert(!client->num_at_work[false] && !client->num_at_work[true]);
    *client->link = client->next;
    if (client->next)
        client->next->link = client->link;
}

/* Its waiting jobs count for the price from now on, or no longer. */
static void set_priced(struct sluice_cpu_market *market, struct sluice_cpu_market_client *client,
                       bool is_priced)
{
    if (client->is_priced == is_priced)
        return;
    client->is_priced = is_priced;
    if (is_priced)
        market->num_waiting += client->num_waiting;
    else
        market->num_waiting -= client->num_waiting;
    market->was_empty |= market->num_waiting == 0;
}

void sluice_cpu_market_follow(struct sluice_cpu_market *market,
                              struct sluice_cpu_market_client *client)
{
    client->follows_price = true;
    set_priced(market, client, true);
}

void sluice_cpu_market_hear_worth(struct sluice_cpu_market_client *client, double worth)
{
    client->worth = worth;
    client->has_told |= worth > 0;
}

void sluice_cpu_market_asked(struct sluice_cpu_market_client *client, uint64_t now_ns)
{
    client->asked_ns = now_ns;
}

void sluice_cpu_market_queued(struct sluice_cpu_market *market,
                              struct sluice_cpu_market_client *client, uint64_t now_ns)
{
    sluice_cpu_market_asked(client, now_ns);
    client->num_waiting++;
    if (client->is_priced)
        market->num_waiting++;
}

void sluice_cpu_market_withdrawn(struct sluice_cpu_market *market,
                                 struct sluice_cpu_market_client *client)
{
    client->num_waiting--;
    if (client->is_priced)
        market->was_empty |= --market->num_waiting == 0;
}

/* Before the number of workers at work changes. */
static void count_work(struct sluice_cpu_market *market, uint64_t now_ns)
{
    for (int k = 0; k < 2; k++)
        market->at_work[k].ns += market->at_work[k].num * (now_ns - market->counted_ns);
    market->counted_ns = now_ns;
}

void sluice_cpu_market_started(struct sluice_cpu_market *market,
                               struct sluice_cpu_market_client *client, uint64_t now_ns)
{
    const bool is_priced = client->is_priced;
    client->num_waiting--;
    if (is_priced)
        market->was_empty |= --market->num_waiting == 0;
    count_work(market, now_ns);
    market->at_work[is_priced].num++;
    client->num_at_work[is_priced]++;
}

void sluice_cpu_market_done(struct sluice_cpu_market *market,
                            struct sluice_cpu_market_client *client, uint64_t now_ns,
                            uint64_t cpu_ns)
{
    /* Those that started before it last changed sides came first. */
    const bool is_priced =
        client->num_at_work[!client->is_priced] ? !client->is_priced : client->is_priced;
    assert(client->num_at_work[is_priced]);
    count_work(market, now_ns);
    market->at_work[is_priced].num--;
    client->num_at_work[is_priced]--;
    if (is_priced)
        market->done_ns += cpu_ns;
    if (is_priced || !client->is_priced)
        client->used_s += (double)cpu_ns * 1e-9;
}

bool sluice_cpu_market_is_due(const struct sluice_cpu_market *market, uint64_t now_ns)
{
    return now_ns - market->price.last_ns >= CPU_MARKET_INTERVAL_NS;
}

static bool is_present(const struct sluice_cpu_market_client *client, uint64_t now_ns)
{
    return client->follows_price && client->asked_ns &&
           now_ns - client->asked_ns < CPU_MARKET_ABSENT_NS;
}

static double weight_of(const struct sluice_cpu_market_client *client)
{
    return client->used_s + CPU_MARKET_LEAST_USED_S;
}

/* The usual reports and use of the clients, with which a client's reports are compared. */
struct usual {
    double worth;  /* the lower median; 0: too few say anything */
    double used_s; /* the mean */
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct usual find_usual(const struct sluice_cpu_market *market, uint64_t now_ns)
{
    double worths[CPU_MARKET_JURY], used_s = 0;
    unsigned num = 0;
    for (const struct sluice_cpu_market_client *c = market->clients; c && num < CPU_MARKET_JURY;
         c = c->next) {
        if (!is_present(c, now_ns) || c->worth <= 0)
            continue;
        worths[num++] = c->worth;
        used_s += c->used_s;
    }
    if (num < 2)
        return (struct usual){0};
    qsort(worths, num, sizeof(*worths), compare);
    return (struct usual){.worth = worths[(num - 1) / 2], .used_s = used_s / num};
}

static bool is_credible(const struct sluice_cpu_market_client *client, const struct usual *usual)
{
    if (client->worth <= 0 || usual->worth <= 0 ||
        client->used_s < CPU_MARKET_DOUBT_USE * usual->used_s)
        return true;
    return client->worth <= CPU_MARKET_CREDIBLE * usual->worth &&
           client->worth >= usual->worth / CPU_MARKET_CREDIBLE;
}

/* Believes the client or not, by what it has said for some time. */
static void judge(struct sluice_cpu_market *market, struct sluice_cpu_market_client *client,
                  bool is_credible_now, uint64_t now_ns)
{
    if (is_credible_now) {
        client->doubted_ns = 0;
    } else {
        client->incredible_ns = now_ns;
        if (!client->doubted_ns)
            client->doubted_ns = now_ns;
    }
    if (client->doubted_ns && now_ns - client->doubted_ns >= CPU_MARKET_DOUBT_NS)
        set_priced(market, client, false);
    else if (!client->incredible_ns || now_ns - client->incredible_ns >= CPU_MARKET_FORGIVE_NS)
        set_priced(market, client, true);
}

/* The clients that share the cores, and the mean of what these are worth to them: the geometric
 * one, weighted by what each used. */
static void add_clients(struct sluice_cpu_market *market, uint64_t now_ns,
                        struct sluice_cpu_load *load)
{
    const double kept = exp(-(double)(now_ns - market->price.last_ns) / CPU_MARKET_USED_NS);
    for (struct sluice_cpu_market_client *c = market->clients; c; c = c->next)
        c->used_s *= kept;
    const struct usual usual = find_usual(market, now_ns);
    double sum = 0, sum_weight = 0;
    for (struct sluice_cpu_market_client *c = market->clients; c; c = c->next) {
        if (!is_present(c, now_ns))
            continue;
        judge(market, c, is_credible(c, &usual), now_ns);
        if (!c->is_priced)
            continue;
        load->num_followers++;
        load->has_silent |= !c->has_told;
        if (c->worth > 0) {
            sum += weight_of(c) * log(c->worth);
            sum_weight += weight_of(c);
        }
    }
    load->worth = sum_weight > 0 ? exp(sum / sum_weight) : 0;
}

double sluice_cpu_market_update(struct sluice_cpu_market *market, uint64_t now_ns, double cores,
                                double waiting_s)
{
    count_work(market, now_ns);
    const double all_s =
        (double)market->num_workers * (double)(now_ns - market->price.last_ns) * 1e-9;
    const double others_s = (double)market->at_work[false].ns * 1e-9;
    const double busy_s = (double)market->at_work[true].ns * 1e-9;
    struct sluice_cpu_load load = {
        .cores = cores,
        .waiting_s = waiting_s,
        .done_s = (double)market->done_ns * 1e-9,
        .busy_s = busy_s,
        .others_s = others_s,
        .idle_s = fmax(all_s - others_s - busy_s, 0),
        .was_empty = market->was_empty,
    };
    add_clients(market, now_ns, &load);
    market->num_followers = load.num_followers;
    market->done_ns = 0;
    market->at_work[false].ns = market->at_work[true].ns = 0;
    market->was_empty = market->num_waiting == 0;
    return sluice_cpu_price_update(&market->price, now_ns, &load);
}

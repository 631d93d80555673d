/* The dense work of QRC(lambda) on a MinAtar game, by hand: networks, gradients, traces, weights.

   It plays no game and normalises nothing: it is given transitions that were normalised already.
   CHANNELS and ACTIONS are defined by the caller. Networks and traces are flat arrays of floats in the
   order of the struct, which is the order of the leaves of `eligrad.nets.MinAtarCNN`. */

#include <math.h>
#include <string.h>

enum { SIDE = 10, OUT = 8, FILTERS = 16, PLACES = OUT * OUT, UNITS = 128 };
enum { FAN_IN = 9 * CHANNELS, WIDE = PLACES * FILTERS, PIXELS = SIDE * SIDE * CHANNELS };

typedef struct {
    float filters[FAN_IN][FILTERS], filter_bias[FILTERS];
    float hidden[WIDE][UNITS], hidden_bias[UNITS];
    float output[UNITS][ACTIONS], output_bias[ACTIONS];
} Net;

typedef struct {
    Net w, theta, z_w, z_theta;
    float z_h, discount; /* of the transition into the current state; 0 where traces are empty */
} Agent;

typedef struct {
    float gamma, lam, step_size, h_step_size, beta;
} Settings;

typedef struct {
    float before[PIXELS], after[PIXELS];
    float reward;
    int action, terminated, reset;
} Transition;

typedef struct { /* what the way back needs of the way there */
    float patches[PLACES][FAN_IN];
    float normed[WIDE], wide[WIDE], scale;
    float hidden_normed[UNITS], features[UNITS], hidden_scale;
    float values[ACTIONS];
} Pass;

typedef struct { /* the factors of a value's gradient; those of the dense layers are outer products */
    float filters[FAN_IN][FILTERS], filter_bias[FILTERS];
    float hidden[UNITS];
} Gradient;

/* Layer normalisation of n numbers and a leaky ReLU; returns the factor of the normalisation. */
static inline float norm(int n, const float *x, float *normed, float *y) {
    float mean = 0, square = 0;
    for (int i = 0; i < n; i++) mean += x[i];
    mean /= n;
    for (int i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    float scale = 1 / sqrtf(square / n + 1e-5f);
    for (int i = 0; i < n; i++) {
        normed[i] = (x[i] - mean) * scale;
        y[i] = normed[i] < 0 ? 0.01f * normed[i] : normed[i];
    }
    return scale;
}

/* The gradient g of what came out of `norm`, made that of what went in. */
static inline void norm_back(int n, const float *normed, float scale, float *g) {
    float mean = 0, along = 0;
    for (int i = 0; i < n; i++) {
        g[i] = normed[i] < 0 ? 0.01f * g[i] : g[i];
        mean += g[i];
        along += g[i] * normed[i];
    }
    mean /= n, along /= n;
    for (int i = 0; i < n; i++) g[i] = scale * (g[i] - mean - normed[i] * along);
}

static void forward(const Net *net, const float *image, Pass *p) {
    float filtered[PLACES][FILTERS], sum[UNITS];
    for (int place = 0; place < PLACES; place++)
        for (int row = 0; row < 3; row++)
            memcpy(p->patches[place] + row * 3 * CHANNELS,
                   image + ((place / OUT + row) * SIDE + place % OUT) * CHANNELS,
                   3 * CHANNELS * sizeof(float));
    for (int place = 0; place < PLACES; place++) {
        memcpy(filtered[place], net->filter_bias, sizeof filtered[place]);
        for (int k = 0; k < FAN_IN; k++)
            for (int f = 0; f < FILTERS; f++)
                filtered[place][f] += p->patches[place][k] * net->filters[k][f];
    }
    p->scale = norm(WIDE, filtered[0], p->normed, p->wide);
    memcpy(sum, net->hidden_bias, sizeof sum);
    for (int i = 0; i < WIDE; i += 4)
        for (int j = 0; j < UNITS; j++)
            sum[j] += p->wide[i] * net->hidden[i][j] + p->wide[i + 1] * net->hidden[i + 1][j] +
                      p->wide[i + 2] * net->hidden[i + 2][j] + p->wide[i + 3] * net->hidden[i + 3][j];
    p->hidden_scale = norm(UNITS, sum, p->hidden_normed, p->features);
    memcpy(p->values, net->output_bias, sizeof p->values);
    for (int j = 0; j < UNITS; j++)
        for (int a = 0; a < ACTIONS; a++) p->values[a] += p->features[j] * net->output[j][a];
}

/* Gradients of one value of each of `count` passes through a network; its weights are read once. */
static inline void backward(const Net *net, int count, const Pass *const *p, const int *action,
                            Gradient **g) {
    float wide[2][WIDE];
    for (int n = 0; n < count; n++) {
        for (int j = 0; j < UNITS; j++) g[n]->hidden[j] = net->output[j][action[n]];
        norm_back(UNITS, p[n]->hidden_normed, p[n]->hidden_scale, g[n]->hidden);
    }
    for (int i = 0; i < WIDE; i++)
        for (int n = 0; n < count; n++) {
            float sum = 0;
            for (int j = 0; j < UNITS; j++) sum += net->hidden[i][j] * g[n]->hidden[j];
            wide[n][i] = sum;
        }
    for (int n = 0; n < count; n++) {
        norm_back(WIDE, p[n]->normed, p[n]->scale, wide[n]);
        memset(g[n]->filters, 0, sizeof g[n]->filters);
        memset(g[n]->filter_bias, 0, sizeof g[n]->filter_bias);
        for (int k = 0; k < FAN_IN; k += 3) {
            float sum[3][FILTERS] = {{0}};
            for (int place = 0; place < PLACES; place++)
                for (int r = 0; r < 3; r++)
                    for (int f = 0; f < FILTERS; f++)
                        sum[r][f] += p[n]->patches[place][k + r] * wide[n][place * FILTERS + f];
            memcpy(g[n]->filters[k], sum, sizeof sum);
        }
        for (int place = 0; place < PLACES; place++)
            for (int f = 0; f < FILTERS; f++)
                g[n]->filter_bias[f] += wide[n][place * FILTERS + f];
    }
}

/* One step of learning; returns the TD error. */
static float step(Agent *a, const Settings *s, const Transition *t) {
    static Pass now, next, aux;
    static Gradient grad, grad_next, grad_aux;
    Net *w = &a->w, *theta = &a->theta, *z_w = &a->z_w, *z_theta = &a->z_theta;
    forward(w, t->before, &now); /* the action was chosen by it */
    forward(w, t->after, &next);
    forward(theta, t->before, &aux);
    int taken = t->action, best = 0;
    for (int i = 1; i < ACTIONS; i++)
        if (next.values[i] > next.values[best]) best = i;
    backward(w, 2, (const Pass *[]){&now, &next}, (int[]){taken, best},
             (Gradient *[]){&grad, &grad_next});
    backward(theta, 1, (const Pass *[]){&aux}, (int[]){taken}, (Gradient *[]){&grad_aux});

    float discount = t->terminated ? 0 : s->gamma, h = aux.values[taken];
    float delta = t->reward + discount * next.values[best] - now.values[taken];
    float decay = a->discount * s->lam, z_h = a->z_h = decay * a->z_h + h;
    /* delta z_w - h grad - z_h (discount grad_next - grad), with the step size in each factor */
    float of_z = s->step_size * delta, of_grad = s->step_size * (z_h - h);
    float of_next = -s->step_size * z_h * discount;
    float of_z_aux = s->h_step_size * delta, of_grad_aux = -s->h_step_size * h;
    float kept = 1 - s->h_step_size * s->beta;

#define MOVE(leaf, g, g_next)                                     \
    do {                                                          \
        float gradient = (g), z = decay * z_w->leaf + gradient;   \
        z_w->leaf = z;                                            \
        w->leaf += of_z * z + of_grad * gradient + of_next * (g_next); \
    } while (0)
#define MOVE_AUX(leaf, g)                                                    \
    do {                                                                     \
        float gradient = (g), z = decay * z_theta->leaf + gradient;          \
        z_theta->leaf = z;                                                   \
        theta->leaf = kept * theta->leaf + of_z_aux * z + of_grad_aux * gradient; \
    } while (0)

    for (int k = 0; k < FAN_IN; k++)
        for (int f = 0; f < FILTERS; f++) {
            MOVE(filters[k][f], grad.filters[k][f], grad_next.filters[k][f]);
            MOVE_AUX(filters[k][f], grad_aux.filters[k][f]);
        }
    for (int f = 0; f < FILTERS; f++) {
        MOVE(filter_bias[f], grad.filter_bias[f], grad_next.filter_bias[f]);
        MOVE_AUX(filter_bias[f], grad_aux.filter_bias[f]);
    }
    for (int i = 0; i < WIDE; i++) {
        for (int j = 0; j < UNITS; j++)
            MOVE(hidden[i][j], now.wide[i] * grad.hidden[j], next.wide[i] * grad_next.hidden[j]);
        for (int j = 0; j < UNITS; j++)
            MOVE_AUX(hidden[i][j], aux.wide[i] * grad_aux.hidden[j]);
    }
    for (int j = 0; j < UNITS; j++) {
        MOVE(hidden_bias[j], grad.hidden[j], grad_next.hidden[j]);
        MOVE_AUX(hidden_bias[j], grad_aux.hidden[j]);
    }
    for (int j = 0; j < UNITS; j++)
        for (int i = 0; i < ACTIONS; i++) {
            MOVE(output[j][i], i == taken ? now.features[j] : 0, i == best ? next.features[j] : 0);
            MOVE_AUX(output[j][i], i == taken ? aux.features[j] : 0);
        }
    for (int i = 0; i < ACTIONS; i++) {
        MOVE(output_bias[i], i == taken, i == best);
        MOVE_AUX(output_bias[i], i == taken);
    }
    a->discount = t->reset ? 0 : discount;
    return delta;
}

/* Learns from all transitions in turn; their TD errors go to `deltas`. */
void learn(Agent *agent, const Settings *settings, int count, const Transition *transitions,
           float *deltas) {
    for (int i = 0; i < count; i++) deltas[i] = step(agent, settings, transitions + i);
}

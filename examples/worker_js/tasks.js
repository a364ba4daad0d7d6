// The functions that this worker knows, by the names that definitions call them.
export const tasks = {
  "text.words": ({ text }) => text.split(/\s+/).filter(Boolean),

  "text.count": async ({ words }, context) => {
    const counts = {};
    for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
    context.heartbeat();
    return counts;
  },

  "text.fail": ({ message }) => {
    throw Object.assign(new RangeError(message), { permanent: true });
  },
};
